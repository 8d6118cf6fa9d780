// Sockets are not there yet: each call answers EOPNOTSUPP.
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/select.h>

static int refused(void)
{
	errno = EOPNOTSUPP;
	return -1;
}

int rsocket(int domain, int type, int protocol) { return refused(); }
int rbind(int s, const struct sockaddr *addr, socklen_t n) { return refused(); }
int rlisten(int s, int backlog) { return refused(); }
int raccept(int s, struct sockaddr *addr, socklen_t *n) { return refused(); }
int rconnect(int s, const struct sockaddr *addr, socklen_t n) { return refused(); }
int rshutdown(int s, int how) { return refused(); }
int rclose(int s) { return refused(); }
ssize_t rrecv(int s, void *to, size_t n, int flags) { return refused(); }
ssize_t rrecvfrom(int s, void *to, size_t n, int flags, struct sockaddr *from, socklen_t *m) { return refused(); }
ssize_t rrecvmsg(int s, struct msghdr *msg, int flags) { return refused(); }
ssize_t rsend(int s, const void *from, size_t n, int flags) { return refused(); }
ssize_t rsendto(int s, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t m) { return refused(); }
ssize_t rsendmsg(int s, const struct msghdr *msg, int flags) { return refused(); }
ssize_t rread(int s, void *to, size_t n) { return refused(); }
ssize_t rreadv(int s, const struct iovec *iov, int n) { return refused(); }
ssize_t rwrite(int s, const void *from, size_t n) { return refused(); }
ssize_t rwritev(int s, const struct iovec *iov, int n) { return refused(); }
int rpoll(struct pollfd *fds, nfds_t n, int timeout) { return refused(); }
int rselect(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout) { return refused(); }
int rgetpeername(int s, struct sockaddr *addr, socklen_t *n) { return refused(); }
int rgetsockname(int s, struct sockaddr *addr, socklen_t *n) { return refused(); }
int rsetsockopt(int s, int level, int name, const void *value, socklen_t n) { return refused(); }
int rgetsockopt(int s, int level, int name, void *value, socklen_t *n) { return refused(); }
int rfcntl(int s, int cmd, ...) { return refused(); }
off_t riomap(int s, void *buf, size_t n, int prot, int flags, off_t offset) { return refused(); }
int riounmap(int s, void *buf, size_t n) { return refused(); }
size_t riowrite(int s, const void *from, size_t n, off_t offset, int flags) { return refused(); }
