/* How every server in C begins: by its one argument, the address to listen on or the word `version`. */
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline void check(bool fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

static inline bool asks_version(int argc, char **argv) {
    return argc > 1 && strcmp(argv[1], "version") == 0;
}

/* A socket that listens at the argument, 192.0.2.1:7777 or [::]:7777, or else on a free port of 127.0.0.1; where is
   told. */
static inline int listening(int argc, char **argv) {
    char host[NI_MAXHOST] = "127.0.0.1", service[NI_MAXSERV] = "0";
    const char *colon = argc > 1 ? strrchr(argv[1], ':') : NULL;
    if (colon != NULL) {
        bool bracketed = argv[1][0] == '[' && colon[-1] == ']';
        snprintf(host, sizeof host, "%.*s", (int)(colon - argv[1]) - 2 * bracketed, argv[1] + bracketed);
        snprintf(service, sizeof service, "%s", colon + 1);
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    bool fine = (argc < 2 || colon != NULL) && getaddrinfo(host, service, &hints, &found) == 0;
    errno = EINVAL; /* What was wrong with it, getaddrinfo says elsewhere. */
    check(fine, argc > 1 ? argv[1] : host);
    int on = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(fd >= 0, "socket");
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
    check(bind(fd, found->ai_addr, found->ai_addrlen) == 0, "bind");
    check(listen(fd, SOMAXCONN) == 0, "listen");
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    check(getsockname(fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    check(getnameinfo((struct sockaddr *)&address, size, host, sizeof host, service, sizeof service,
                      NI_NUMERICHOST | NI_NUMERICSERV) == 0, "getnameinfo");
    check(printf(found->ai_family == AF_INET6 ? "listening on [%s]:%s\n" : "listening on %s:%s\n", host, service) > 0,
          "standard output");
    check(fflush(stdout) == 0, "standard output");
    freeaddrinfo(found);
    return fd;
}
