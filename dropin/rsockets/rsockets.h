// What the files of the sockets share.
#ifndef RSOCKETS_H
#define RSOCKETS_H

#include "../cm/cm.h"

#include <fcntl.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdatomic.h>

// What rsetsockopt sets and rgetsockopt tells (options.c).
struct settings {
	int reuse_addr, keepalive, oob_inline, receive_buffer, send_buffer;
	struct linger linger;
	bool lingers; // it was set
	int no_delay, max_segment, keep_idle, v6only;
	int sq_size, rq_size, inline_size, iomap_size;
	void *route;
	socklen_t route_length;
};

// A socket. There is one for each number that was a socket's, and it stays for ever, so that a call
// with a number that is over, or is becoming so, finds that out in it (numbers.c).
struct rsocket {
	atomic_uint users;
	int number;
	int domain, type;
	atomic_int flags; // O_NONBLOCK and what else F_SETFL has said
	atomic_bool listens;
	_Atomic(uint32_t) handle; // the engine's; 0: it knows nothing of the socket yet

	pthread_mutex_t opening, reads, writes; // of handle and settings; held by calls whose turn it is
	struct settings set;
};

// How long a call that waits may be in the engine, in ms.
enum { ATTEND = 10 };

// numbers.c
struct rsocket *enter(int number);
void leave(struct rsocket *);
struct rsocket *number_new(int domain, int type);
bool number_close(struct rsocket *);
int handle_of(struct rsocket *, uint32_t *handle);

// options.c
void settings_init(struct settings *);
struct goroce_rs_options options_of(const struct rsocket *);

// wait.c
int asleep(struct rsocket *, short events);
int wait_for(struct pollfd *, nfds_t, int ms);
int nap(void);

// exhausted says that no descriptor was left for one that shows what a socket is ready for, which is
// no error of who waits: it looks again and again.
static inline bool exhausted(int err) { return err == EMFILE || err == ENFILE; }

static inline bool blocks(const struct rsocket *rs, int flags)
{
	return !(rs->flags & O_NONBLOCK) && !(flags & MSG_DONTWAIT);
}

#endif
