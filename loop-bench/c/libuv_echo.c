/* An echo server on libuv. What is read is written at once; only what the socket does not take is queued. */
#include "listen.h"
#include <uv.h>

struct unsent {
    uv_write_t request;
    char data[];
};

static unsigned long long echoed;
static char buffer[64 * 1024]; /* For all: what is read is answered before anything else is read. */

static void uv_check(int status, const char *what) {
    if (status >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, uv_strerror(status));
    exit(1);
}

static void on_closed(uv_handle_t *handle) {
    free(handle);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *into) {
    (void)handle, (void)suggested;
    *into = uv_buf_init(buffer, sizeof buffer);
}

static void on_data(uv_stream_t *stream, ssize_t length, const uv_buf_t *data);

static void on_written(uv_write_t *request, int status) {
    uv_stream_t *stream = request->handle;
    free(request);
    if (!uv_is_closing((uv_handle_t *)stream) && (status < 0 || uv_read_start(stream, on_alloc, on_data) < 0))
        uv_close((uv_handle_t *)stream, on_closed);
}

static void on_data(uv_stream_t *stream, ssize_t length, const uv_buf_t *data) {
    uv_buf_t rest = uv_buf_init(data->base, length > 0 ? (unsigned)length : 0);
    int sent = length > 0 ? uv_try_write(stream, &rest, 1) : 0;
    if (length < 0 || (sent < 0 && sent != UV_EAGAIN))
        return uv_close((uv_handle_t *)stream, on_closed);
    echoed += rest.len, rest.base += sent > 0 ? sent : 0, rest.len -= sent > 0 ? (size_t)sent : 0;
    if (rest.len > 0) {
        struct unsent *unsent = malloc(sizeof *unsent + rest.len);
        uv_check(unsent ? 0 : UV_ENOMEM, "malloc");
        rest.base = memcpy(unsent->data, rest.base, rest.len);
        uv_check(uv_write(&unsent->request, stream, &rest, 1, on_written), "uv_write");
        uv_read_stop(stream);
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    uv_tcp_t *connection = malloc(sizeof *connection);
    uv_check(connection ? status : UV_ENOMEM, "listen");
    uv_check(uv_tcp_init(listener->loop, connection), "uv_tcp_init");
    uv_check(uv_accept(listener, (uv_stream_t *)connection), "uv_accept");
    uv_check(uv_tcp_nodelay(connection, 1), "uv_tcp_nodelay");
    uv_check(uv_read_start((uv_stream_t *)connection, on_alloc, on_data), "uv_read_start");
}

static void on_input(uv_stream_t *input, ssize_t length, const uv_buf_t *data) {
    (void)data;
    if (length < 0)
        uv_stop(input->loop);
}

int main(int argc, char **argv) {
    if (asks_version(argc, argv))
        return printf("libuv %s\n", uv_version_string()) < 0;
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    uv_pipe_t input;
    uv_check(loop ? 0 : UV_ENOMEM, "uv_default_loop");
    uv_check(uv_tcp_init(loop, &listener), "uv_tcp_init");
    uv_check(uv_tcp_open(&listener, listening(argc, argv)), "uv_tcp_open");
    uv_check(uv_listen((uv_stream_t *)&listener, SOMAXCONN, on_connection), "uv_listen");
    uv_check(uv_pipe_init(loop, &input, 0), "uv_pipe_init");
    uv_check(uv_pipe_open(&input, 0), "standard input");
    uv_check(uv_read_start((uv_stream_t *)&input, on_alloc, on_input), "standard input");
    uv_run(loop, UV_RUN_DEFAULT); /* Until it is stopped: whoever is connected is left behind. */
    return printf("echoed %llu\n", echoed) < 0;
}
