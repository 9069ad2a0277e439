/* An echo server on libevent, by its buffered events: what comes in is handed to the output uncopied. */
#include "echo.h"
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <signal.h>

static void on_data(struct bufferevent *connection, void *context) {
    struct evbuffer *input = bufferevent_get_input(connection);
    (void)context;
    echoed += evbuffer_get_length(input);
    check(bufferevent_write_buffer(connection, input) == 0, "bufferevent_write_buffer");
}

static void on_end(struct bufferevent *connection, short what, void *context) {
    (void)what, (void)context;
    bufferevent_free(connection);
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *peer,
                          int size, void *context) {
    struct event_base *base = evconnlistener_get_base(listener);
    struct bufferevent *connection = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
    (void)peer, (void)size, (void)context;
    check(connection != NULL, "bufferevent_socket_new");
    without_delay(fd);
    bufferevent_setcb(connection, on_data, NULL, on_end, NULL);
    check(bufferevent_enable(connection, EV_READ | EV_WRITE) == 0, "bufferevent_enable");
}

static void on_refused(struct evconnlistener *listener, void *context) {
    (void)listener, (void)context;
    check(false, "accept");
}

static void on_input(evutil_socket_t fd, short what, void *base) {
    (void)fd, (void)what;
    if (input_ended())
        check(event_base_loopbreak(base) == 0, "event_base_loopbreak");
}

int main(int argc, char **argv) {
    if (asks_version(argc, argv))
        return printf("libevent %s\n", event_get_version()) < 0;
    struct event_base *base = event_base_new();
    check(base != NULL && signal(SIGPIPE, SIG_IGN) != SIG_ERR, "event_base_new");
    struct event *input = event_new(base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, base);
    check(input != NULL && event_add(input, NULL) == 0, "standard input");
    /* The socket listens already, which the 0 says. */
    struct evconnlistener *listener = evconnlistener_new(
        base, on_connection, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, listening(argc, argv));
    check(listener != NULL, "evconnlistener_new");
    evconnlistener_set_error_cb(listener, on_refused);
    check(event_base_dispatch(base) == 0, "event_base_dispatch");
    return farewell();
}
