/* What the echo servers have in common that read and write sockets themselves. */
#include "listen.h"

static unsigned long long echoed;

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
