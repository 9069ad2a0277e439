/* Iterations of libuv with one idle handle, beside a descriptor that never has anything to say. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

static uint64_t wanted, ran;

static void on_idle(uv_idle_t *idle) {
    if (++ran == wanted) {
        uv_stop(idle->loop);
    }
}

static void on_event(uv_poll_t *poll, int status, int events) {
    (void)poll, (void)status, (void)events;
    abort();
}

/* libuv_idle N: prints how many iterations were run, and the nanoseconds that they took. */
int main(int argc, char **argv) {
    uv_loop_t loop;
    uv_idle_t idle;
    uv_poll_t poll;
    int pair[2];

    wanted = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    if (wanted == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || uv_loop_init(&loop) != 0 ||
        uv_poll_init(&loop, &poll, pair[0]) != 0 ||
        uv_poll_start(&poll, UV_READABLE, on_event) != 0 || uv_idle_init(&loop, &idle) != 0 ||
        uv_idle_start(&idle, on_idle) != 0) {
        return 1;
    }
    uint64_t start = uv_hrtime();
    uv_run(&loop, UV_RUN_DEFAULT);
    printf("%" PRIu64 " %" PRIu64 "\n", ran, uv_hrtime() - start);
    return 0;
}
