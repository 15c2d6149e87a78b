/* wire COMMAND [ARGUMENT...]: runs the command twice, with the two ends of one wire.
 *
 * The wire is a pair of connected sockets that keeps packets whole. Each command finds the number of its
 * end in RDMA_RIG_WIRE_FD, and which one it is (0 or 1) in RDMA_RIG_GUEST. The exit status is that of
 * command 0, or of command 1 if that is 0; 125 if they could not be run. A shell cannot make such a
 * pair: hence C. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GUESTS = 2, BUFFER_BYTES = 4 << 20, FAILED = 125 };

static void fail(const char *what)
{
    perror(what);
    exit(FAILED);
}

static void widen(int end)
{
    int bytes = BUFFER_BYTES;
    /* The kernel may give less; the wire is then slower, not wrong. */
    (void)setsockopt(end, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    (void)setsockopt(end, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

static pid_t start(char **command, int guest, const int *ends)
{
    char number[16];
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child > 0)
        return child;
    close(ends[1 - guest]);
    snprintf(number, sizeof number, "%d", guest);
    setenv("RDMA_RIG_GUEST", number, 1);
    snprintf(number, sizeof number, "%d", ends[guest]);
    setenv("RDMA_RIG_WIRE_FD", number, 1);
    execvp(command[0], command);
    fail(command[0]);
    return -1;
}

static int status_of(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) < 0)
        fail("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int count, char **arguments)
{
    int ends[GUESTS];
    if (count < 2) {
        fprintf(stderr, "a command is expected\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) < 0)
        fail("socketpair");
    pid_t guests[GUESTS];
    for (int guest = 0; guest < GUESTS; guest++) {
        widen(ends[guest]);
        guests[guest] = start(arguments + 1, guest, ends);
    }
    close(ends[0]);
    close(ends[1]);
    int first = status_of(guests[0]), second = status_of(guests[1]);
    return first ? first : second;
}
