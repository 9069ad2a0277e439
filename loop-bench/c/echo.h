/* What the echo servers have in common that read and write sockets themselves. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned long long echoed;

static inline void check(bool fine, const char *what) {
    if (!fine) {
        perror(what);
        exit(1);
    }
}

/* A socket that listens on a free port of 127.0.0.1; the port is told. */
static inline int listening(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    check(fd >= 0, "socket");
    check(bind(fd, (struct sockaddr *)&address, size) == 0, "bind");
    check(listen(fd, SOMAXCONN) == 0, "listen");
    check(getsockname(fd, (struct sockaddr *)&address, &size) == 0, "getsockname");
    check(printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port)) > 0, "standard output");
    check(fflush(stdout) == 0, "standard output");
    return fd;
}

static inline void without_delay(int fd) {
    int on = 1;
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

/* The next connection; -1 if its peer has given up. */
static inline int accepted(int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    check(fd >= 0 || errno == EAGAIN || errno == ECONNABORTED, "accept");
    if (fd >= 0)
        without_delay(fd);
    return fd;
}

/* What a peer has not taken yet. Until it has gone, nothing more is read. */
struct unsent {
    size_t length;
    char *data;
};

/* Reads once and sends that, or sends what waits; false when the connection is over. */
static inline bool echo(int fd, struct unsent *unsent) {
    static char buffer[64 * 1024];
    char *data = unsent->data ? unsent->data : buffer, *rest = NULL;
    ssize_t length = unsent->data ? (ssize_t)unsent->length : recv(fd, buffer, sizeof buffer, 0);
    if (length <= 0)
        return length < 0 && errno == EAGAIN;
    ssize_t sent = send(fd, data, (size_t)length, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        return false;
    sent = sent < 0 ? 0 : sent;
    if (sent < length) {
        check((rest = malloc((size_t)(length - sent))) != NULL, "malloc");
        memcpy(rest, data + sent, (size_t)(length - sent));
    }
    free(unsent->data);
    *unsent = (struct unsent){.length = (size_t)(length - sent), .data = rest};
    echoed += (size_t)sent;
    return true;
}

/* Whether standard input has ended, and with it the server. */
static inline bool input_ended(void) {
    char ignored[256];
    return read(STDIN_FILENO, ignored, sizeof ignored) <= 0;
}

static inline int farewell(void) {
    return printf("echoed %llu\n", echoed) < 0;
}
