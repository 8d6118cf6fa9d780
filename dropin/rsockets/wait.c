// Sleeping until a socket is ready. The calls that do it are those of the kernel that signals and
// pthread_cancel end as they end a socket's: a signal whose handler wants calls to go on (SA_RESTART)
// does not end recv, send and read, and does end poll.
//
// Stages: a socket's sleep; what ends it; a sleep of some ms.
#define _GNU_SOURCE
#include "rsockets.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static void awake(void *rs)
{
	ENGINE(rs_sleep, ((struct rsocket *)rs)->handle, ((struct rsocket *)rs)->number, 0);
}

// event waits for an event of a listener or of datagrams. What it has read it puts back: there is
// one until the engine has handed it out.
static void event(int number)
{
	uint64_t events;
	int before;
	if (read(number, &events, sizeof events) != sizeof events)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	if (write(number, &events, sizeof events) < 0)
		errno = 0;
	pthread_setcancelstate(before, NULL);
}

// asleep waits until a socket may be ready for POLLIN or POLLOUT. An errno: EINTR, or that of the
// engine.
int asleep(struct rsocket *rs, short events)
{
	char byte = 0;
	int err = ENGINE(rs_sleep, rs->handle, rs->number, 1);
	if (exhausted(err))
		return nap();
	if (err)
		return err;
	pthread_cleanup_push(awake, rs);
	errno = 0;
	if (rs->type == SOCK_DGRAM || rs->listens)
		event(rs->number);
	else if (events & POLLIN)
		(void)!recv(rs->number, &byte, sizeof byte, MSG_PEEK);
	else
		(void)!send(rs->number, &byte, sizeof byte, MSG_NOSIGNAL);
	err = errno == EINTR ? EINTR : 0;
	pthread_cleanup_pop(1);
	return err;
}

// wait_for is poll, ended by the program's signals alone: Go sends SIGURG to a thread that has just
// left it, and no poll goes on after a signal.
int wait_for(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
	sigset_t mask;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	sigaddset(&mask, SIGURG);
	return ppoll(fds, n, ms < 0 ? NULL : &time, &mask);
}

// nap is for what no descriptor shows: a short while, or a signal.
int nap(void) { return wait_for(NULL, 0, ATTEND) < 0 ? errno : 0; }
