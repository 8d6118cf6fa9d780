// The numbers of sockets. Each is a descriptor of the process, so that it is nobody else's: of
// nothing at first (an empty epoll), and from the first time that a call sleeps on it a duplicate of
// what shows what the socket is ready for. It is closed when the last call that uses it has left.
//
// Stages: the places; a call enters and leaves; a socket is made, known to the engine, and closed.
#include "rsockets.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CHUNK = 256, CHUNKS = 4096 };
static const unsigned CLOSED = 1u << 31; // in users: no call may enter

static _Atomic(struct rsocket *) chunks[CHUNKS]; // of CHUNK places each
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;

static struct rsocket *place(int number)
{
	if (number < 0 || number >= CHUNK * CHUNKS)
		return NULL;
	struct rsocket *chunk = atomic_load_explicit(&chunks[number / CHUNK], memory_order_acquire);
	return chunk ? &chunk[number % CHUNK] : NULL;
}

// make_place is place of a number that may be the first of its chunk.
static struct rsocket *make_place(int number)
{
	if (number >= CHUNK * CHUNKS)
		return NULL;
	pthread_mutex_lock(&growing);
	if (!chunks[number / CHUNK]) {
		struct rsocket *chunk = calloc(CHUNK, sizeof *chunk);
		for (int i = 0; chunk && i < CHUNK; i++) {
			pthread_mutex_init(&chunk[i].opening, NULL);
			pthread_mutex_init(&chunk[i].reads, NULL);
			pthread_mutex_init(&chunk[i].writes, NULL);
		}
		atomic_store_explicit(&chunks[number / CHUNK], chunk, memory_order_release);
	}
	pthread_mutex_unlock(&growing);
	return place(number);
}

// enter begins a call; NULL, with errno: the number is no socket's.
struct rsocket *enter(int number)
{
	struct rsocket *rs = place(number);
	unsigned users = rs ? atomic_load(&rs->users) : 0;
	while (users && !(users & CLOSED))
		if (atomic_compare_exchange_weak(&rs->users, &users, users + 1))
			return rs;
	errno = EBADF;
	return NULL;
}

void leave(struct rsocket *rs)
{
	if (atomic_fetch_sub(&rs->users, 1) != CLOSED + 1)
		return;
	int number = rs->number;
	free(rs->set.route);
	atomic_store(&rs->users, 0);
	close(number);
}

// number_new makes a socket, which the caller has entered; NULL, with errno.
struct rsocket *number_new(int domain, int type)
{
	int number = epoll_create1(EPOLL_CLOEXEC);
	if (number < 0)
		return NULL;
	struct rsocket *rs = make_place(number);
	if (!rs) {
		close(number);
		errno = EMFILE;
		return NULL;
	}
	rs->number = number;
	rs->domain = domain;
	rs->type = type;
	rs->flags = 0;
	rs->listens = false;
	rs->handle = 0;
	settings_init(&rs->set);
	atomic_store(&rs->users, 2);
	return rs;
}

// number_close lets no call enter any more, and gives up what number_new has taken; false: another
// call has done so.
bool number_close(struct rsocket *rs)
{
	if (atomic_fetch_or(&rs->users, CLOSED) & CLOSED)
		return false;
	leave(rs);
	return true;
}

// handle_of is the engine's handle of a socket, which is made known to it if need be; an errno. A
// program may fork before. One that was closed meanwhile is not made known any more: nobody would
// close it there.
int handle_of(struct rsocket *rs, uint32_t *handle)
{
	int err = 0;
	if (!(*handle = rs->handle)) {
		pthread_mutex_lock(&rs->opening);
		uint32_t h = rs->handle;
		if (!h && !(err = cm_ready()) && !(err = rs->users & CLOSED ? EBADF : ENGINE(rs_open, rs->domain, rs->type, &h))) {
			struct goroce_rs_options options = options_of(rs);
			err = ENGINE(rs_configure, h, &options);
			rs->handle = h;
		}
		*handle = h;
		pthread_mutex_unlock(&rs->opening);
	}
	return err;
}
