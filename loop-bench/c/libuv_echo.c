/* An echo server on libuv. What is read is written at once; only what the socket does not take is queued. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct unsent {
    uv_write_t request;
    char data[];
};

static unsigned long long echoed;
static char buffer[64 * 1024]; /* For all: what is read is answered before anything else is read. */

static void check(int status, const char *what) {
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
        check(unsent ? 0 : UV_ENOMEM, "malloc");
        rest.base = memcpy(unsent->data, rest.base, rest.len);
        check(uv_write(&unsent->request, stream, &rest, 1, on_written), "uv_write");
        uv_read_stop(stream);
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    uv_tcp_t *connection = malloc(sizeof *connection);
    check(connection ? status : UV_ENOMEM, "listen");
    check(uv_tcp_init(listener->loop, connection), "uv_tcp_init");
    check(uv_accept(listener, (uv_stream_t *)connection), "uv_accept");
    check(uv_tcp_nodelay(connection, 1), "uv_tcp_nodelay");
    check(uv_read_start((uv_stream_t *)connection, on_alloc, on_data), "uv_read_start");
}

static void on_input(uv_stream_t *input, ssize_t length, const uv_buf_t *data) {
    (void)data;
    if (length < 0)
        uv_stop(input->loop);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1)
        return printf("libuv %s\n", uv_version_string()) < 0;
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    uv_pipe_t input;
    struct sockaddr_in address;
    int size = sizeof address;
    check(loop ? 0 : UV_ENOMEM, "uv_default_loop");
    check(uv_ip4_addr("127.0.0.1", 0, &address), "uv_ip4_addr");
    check(uv_tcp_init(loop, &listener), "uv_tcp_init");
    check(uv_tcp_bind(&listener, (struct sockaddr *)&address, 0), "uv_tcp_bind");
    check(uv_listen((uv_stream_t *)&listener, SOMAXCONN, on_connection), "uv_listen");
    check(uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size), "uv_tcp_getsockname");
    check(uv_pipe_init(loop, &input, 0), "uv_pipe_init");
    check(uv_pipe_open(&input, 0), "standard input");
    check(uv_read_start((uv_stream_t *)&input, on_alloc, on_input), "standard input");
    printf("listening on 127.0.0.1:%d\n", ntohs(address.sin_port));
    check(fflush(stdout) ? UV_EIO : 0, "standard output");
    uv_run(loop, UV_RUN_DEFAULT); /* Until it is stopped: whoever is connected is left behind. */
    return printf("echoed %llu\n", echoed) < 0;
}
