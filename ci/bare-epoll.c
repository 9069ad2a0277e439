/* The least that an echo server on epoll can do: the floor that ci/echo-cost measures others against.
 * It answers what one read brings with one send, and does not mind what the socket does not take. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0), on = 1;
    static char buffer[65536];
    struct epoll_event watched = {.events = EPOLLIN, .data.fd = listener}, ready[128];
    if (listener < 0 || epoll < 0 || bind(listener, (struct sockaddr *)&addr, sizeof addr) ||
        listen(listener, 128) || getsockname(listener, (struct sockaddr *)&addr, &length) ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &watched))
        return 1;
    printf("listening on 127.0.0.1:%d\n", ntohs(addr.sin_port));
    fflush(stdout);
    for (;;) {
        int count = epoll_wait(epoll, ready, 128, -1);
        for (int i = 0; i < count; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) {
                watched.data.fd = accept(listener, NULL, NULL);
                setsockopt(watched.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(epoll, EPOLL_CTL_ADD, watched.data.fd, &watched);
                continue;
            }
            ssize_t got = recv(fd, buffer, sizeof buffer, 0);
            if (got <= 0 || send(fd, buffer, got, MSG_NOSIGNAL) < 0)
                close(fd);
        }
    }
}
