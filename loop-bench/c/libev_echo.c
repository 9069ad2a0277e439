/* An echo server on libev, which tells of readiness and leaves reading and writing to its user. */
#include "echo.h"
#include <ev.h>

struct connection {
    ev_io io;
    struct unsent unsent;
};

static void on_ready(struct ev_loop *loop, ev_io *io, int events) {
    struct connection *one = (struct connection *)io;
    bool waited = one->unsent.data != NULL;
    (void)events;
    if (!echo(io->fd, &one->unsent)) {
        ev_io_stop(loop, io);
        check(close(io->fd) == 0, "close");
        free(one->unsent.data);
        free(one);
    } else if (waited != (one->unsent.data != NULL)) {
        ev_io_stop(loop, io);
        ev_io_set(io, io->fd, waited ? EV_READ : EV_WRITE);
        ev_io_start(loop, io);
    }
}

static void on_connection(struct ev_loop *loop, ev_io *listener, int events) {
    int fd = accepted(listener->fd);
    (void)events;
    if (fd >= 0) {
        struct connection *one = calloc(1, sizeof *one);
        check(one != NULL, "calloc");
        ev_io_init(&one->io, on_ready, fd, EV_READ);
        ev_io_start(loop, &one->io);
    }
}

static void on_input(struct ev_loop *loop, ev_io *input, int events) {
    (void)input, (void)events;
    if (input_ended())
        ev_break(loop, EVBREAK_ALL);
}

int main(int argc, char **argv) {
    if (asks_version(argc, argv))
        return printf("libev %d.%d\n", ev_version_major(), ev_version_minor()) < 0;
    struct ev_loop *loop = ev_default_loop(EVFLAG_AUTO);
    ev_io listener, input;
    check(loop != NULL, "ev_default_loop");
    ev_io_init(&listener, on_connection, listening(argc, argv), EV_READ);
    ev_io_start(loop, &listener);
    ev_io_init(&input, on_input, STDIN_FILENO, EV_READ);
    ev_io_start(loop, &input);
    ev_run(loop, 0);
    return farewell();
}
