// rpoll and rselect: the engine says what sockets are ready for, and if none is, one poll waits for
// their numbers and the other descriptors together.
//
// Stages: what is polled, sorted; a round; rounds until there is something; rselect.
#include "rsockets.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

// A wait for some descriptors. Of the sockets among them: what the engine is told, where they are in
// the program's list, and whether their numbers alone tell what comes.
struct wait {
	struct pollfd *all;
	struct goroce_rs_poll *ours;
	struct rsocket **sockets;
	int *at;
	int n, count;
	int64_t until; // ns; 0: for ever
	bool numbers;  // there are others than connections
	bool sleeps;   // the engine keeps the numbers up to date
};

static void awake(struct wait *w)
{
	if (w->sleeps)
		ENGINE(rs_wake, w->ours, w->count);
	w->sleeps = false;
}

static void end(void *wait)
{
	struct wait *w = wait;
	awake(w);
	for (int i = 0; i < w->count; i++)
		leave(w->sockets[i]);
	free(w->all);
}

static bool by_number(const struct rsocket *rs) { return rs->type == SOCK_DGRAM || rs->listens; }

// sort finds the sockets; an errno. Sockets that are nothing yet are ready for nothing.
static int sort(struct wait *w, const struct pollfd *fds, int n)
{
	size_t one = sizeof *w->all + sizeof *w->ours + sizeof *w->sockets + sizeof *w->at;
	char *memory = malloc(n * one);
	int before = errno;
	if (!memory)
		return ENOMEM;
	*w = (struct wait){.n = n, .all = (struct pollfd *)memory};
	w->sockets = (struct rsocket **)(w->all + n);
	w->ours = (struct goroce_rs_poll *)(w->sockets + n);
	w->at = (int *)(w->ours + n);
	for (int i = 0; i < n; i++) {
		struct rsocket *rs = enter(fds[i].fd);
		w->all[i] = fds[i];
		w->all[i].revents = 0;
		if (!rs) {
			w->numbers = true;
			continue;
		}
		uint32_t handle = rs->handle;
		w->all[i].fd = -1;
		if (!handle && (rs->type == SOCK_STREAM || handle_of(rs, &handle))) {
			leave(rs);
			continue;
		}
		w->numbers = w->numbers || by_number(rs);
		w->ours[w->count] = (struct goroce_rs_poll){.handle = handle, .number = rs->number, .events = fds[i].events};
		w->sockets[w->count] = rs;
		w->at[w->count++] = i;
	}
	errno = before;
	return 0;
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

// left is for how many ms it waits yet, at least.
static int left(const struct wait *w)
{
	int64_t ns = w->until ? w->until - now() : -1;
	return !w->until ? -1 : ns > 0 ? (ns + 999999) / 1000000 : 0;
}

// round looks, and waits for so many ms. It returns how many descriptors are ready, as poll does;
// again: something has happened to a socket that may be nothing.
static int round_of(struct wait *w, struct pollfd *fds, int ms, bool *again)
{
	int ready = 0, attend = w->n > 1 ? 0 : ms < 0 || ms > ATTEND ? ATTEND : ms;
	int err = w->count ? ENGINE(rs_poll, w->ours, w->count, attend, ms != 0, &ready) : 0;
	bool blind = exhausted(err);
	if (err && !blind)
		return result(err);
	if (blind) {
		*again = true;
		ms = ms < 0 || ms > ATTEND ? ATTEND : ms;
	}
	w->sleeps = w->count && !ready && ms && !blind;
	for (int i = 0; i < w->count; i++) {
		struct pollfd *p = &w->all[w->at[i]];
		bool alone = by_number(w->sockets[i]);
		p->fd = alone || w->sleeps ? w->sockets[i]->number : -1;
		p->events = w->ours[i].events & (alone ? POLLIN | POLLRDNORM : ~0);
	}
	int n = 0;
	if (w->numbers || w->sleeps || !w->count || blind)
		if ((n = wait_for(w->all, w->n, ready || !ms ? 0 : blind ? ms : left(w))) < 0)
			return n;
	awake(w);
	for (int i = 0; i < w->n; i++)
		fds[i].revents = w->all[i].revents;
	for (int i = 0; i < w->count; i++) {
		short *is = &fds[w->at[i]].revents;
		*again = *again || *is;
		*is = w->ours[i].revents | (by_number(w->sockets[i]) ? *is & w->all[w->at[i]].events : 0);
	}
	ready = 0;
	for (int i = 0; i < w->n; i++)
		ready += fds[i].revents != 0;
	return ready;
}

int rpoll(struct pollfd *fds, nfds_t n, int timeout)
{
	struct wait w;
	int err = sort(&w, fds, n), ready = 0;
	if (err)
		return result(err);
	pthread_cleanup_push(end, &w);
	w.until = timeout < 0 ? 0 : now() + timeout * 1000000L;
	for (int ms = timeout;; ms = left(&w)) {
		bool again = false;
		ready = round_of(&w, fds, ms, &again);
		if (ready || !ms || (!again && !left(&w)))
			break;
	}
	pthread_cleanup_pop(1);
	return ready;
}

int rselect(int n, fd_set *readable, fd_set *writable, fd_set *exceptional, struct timeval *timeout)
{
	if (n < 0 || n > FD_SETSIZE || (timeout && (timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return result(EINVAL);
	struct pollfd fds[n ? n : 1];
	int count = 0, ready = 0;
	for (int fd = 0; fd < n; fd++) {
		short events = (readable && FD_ISSET(fd, readable) ? POLLIN : 0) | (writable && FD_ISSET(fd, writable) ? POLLOUT : 0) |
		               (exceptional && FD_ISSET(fd, exceptional) ? POLLPRI : 0);
		if (events)
			fds[count++] = (struct pollfd){.fd = fd, .events = events};
	}
	int ms = -1;
	if (timeout) // as long as rpoll can, if that is too long
		ms = timeout->tv_sec < INT_MAX / 1000 - 1 ? timeout->tv_sec * 1000 + (timeout->tv_usec + 999) / 1000 : INT_MAX;
	if (rpoll(fds, count, ms) < 0)
		return -1;
	for (int i = 0; i < count; i++)
		if (fds[i].revents & POLLNVAL)
			return result(EBADF);
	struct {
		fd_set *set;
		short asked, says;
	} sets[] = {{readable, POLLIN, POLLIN | POLLHUP | POLLERR}, {writable, POLLOUT, POLLOUT | POLLERR},
		{exceptional, POLLPRI, (short)~(POLLIN | POLLOUT)}};
	for (int k = 0; k < 3; k++)
		for (int i = 0; sets[k].set && i < count; i++)
			if (fds[i].events & sets[k].asked) {
				bool is = fds[i].revents & sets[k].says;
				ready += is;
				if (!is)
					FD_CLR(fds[i].fd, sets[k].set);
			}
	return ready;
}
