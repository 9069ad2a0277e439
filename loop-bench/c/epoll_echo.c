/* An echo server on a bare epoll: what others cost beyond this is the price of their abstractions. */
#include "echo.h"
#include <sys/epoll.h>

struct connection {
    int fd;
    struct unsent unsent;
};

static void watch(int epoll, int operation, struct connection *one, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = one};
    check(epoll_ctl(epoll, operation, one->fd, &event) == 0, "epoll_ctl");
}

static void on_listener(int epoll, int listener) {
    int fd = accepted(listener);
    if (fd >= 0) {
        struct connection *one = calloc(1, sizeof *one);
        check(one != NULL, "calloc");
        one->fd = fd;
        watch(epoll, EPOLL_CTL_ADD, one, EPOLLIN);
    }
}

static void on_connection(int epoll, struct connection *one) {
    bool waited = one->unsent.data != NULL;
    if (!echo(one->fd, &one->unsent)) {
        check(close(one->fd) == 0, "close");
        free(one->unsent.data);
        free(one);
    } else if (waited != (one->unsent.data != NULL)) {
        watch(epoll, EPOLL_CTL_MOD, one, waited ? EPOLLIN : EPOLLOUT);
    }
}

int main(int argc, char **argv) {
    if (asks_version(argc, argv))
        return printf("cc %s\n", __VERSION__) < 0;
    struct epoll_event ready[256];
    struct connection input = {.fd = STDIN_FILENO}, listener = {.fd = listening(argc, argv)};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    check(epoll >= 0, "epoll_create1");
    watch(epoll, EPOLL_CTL_ADD, &listener, EPOLLIN);
    watch(epoll, EPOLL_CTL_ADD, &input, EPOLLIN);
    for (;;) {
        int count = epoll_wait(epoll, ready, 256, -1);
        check(count >= 0 || errno == EINTR, "epoll_wait");
        for (int i = 0; i < count; i++) {
            struct connection *one = ready[i].data.ptr;
            if (one == &listener)
                on_listener(epoll, one->fd);
            else if (one != &input)
                on_connection(epoll, one);
            else if (input_ended())
                return farewell();
        }
    }
}
