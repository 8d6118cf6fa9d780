// Event channels.
//
// Stages: channels; taking an event; acknowledging one, and waiting for that; what an event is
// called.
#include "cm.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

// One lock for all that is counted here, which is seldom.
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t counted = PTHREAD_COND_INITIALIZER;

// asleep_in is the channel in whose rdma_get_cm_event this thread is.
static __thread struct channel *asleep_in;

// event is an event with the private data that it names.
struct event {
	struct rdma_cm_event event;
	uint8_t private_data[256];
	struct id *counts; // the ID that it counts for
};

// The channel's descriptor is a second one of the engine's: who sleeps in it still has it when the
// engine has closed its own.
struct rdma_event_channel *rdma_create_event_channel(void)
{
	int err = cm_ready(), fd;
	struct channel *ch = calloc(1, sizeof *ch);
	if (!ch)
		err = ENOMEM;
	if (!err)
		err = ENGINE(cm_create_channel, id_born, id_unborn, &fd, &ch->handle);
	if (!err && (ch->channel.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0) {
		err = errno;
		ENGINE(cm_destroy_channel, ch->handle);
	}
	if (err) {
		free(ch);
		errno = err;
		return NULL;
	}
	int flags = fcntl(ch->channel.fd, F_GETFL);
	fcntl(ch->channel.fd, F_SETFL, flags & ~O_NONBLOCK); // as rdma-core's: the program may set it
	return &ch->channel;
}

// IDs that are on it are over with it, but for their structures. Programs that are told to end call
// it in a signal's handler that has interrupted their own wait, which is then the last to look at it.
void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	struct channel *ch = (struct channel *)channel;
	if (ENGINE(cm_destroy_channel, ch->handle))
		return;
	int before;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	pthread_mutex_lock(&counting);
	while (ch->waiting > (asleep_in == ch)) // they are woken, and look at it no more
		pthread_cond_wait(&counted, &counting);
	pthread_mutex_unlock(&counting);
	pthread_setcancelstate(before, NULL);
	if ((ch->left = asleep_in == ch))
		return;
	close(ch->channel.fd);
	free(ch);
}

// waits changes how many threads wait.
static void waits(struct channel *ch, int by)
{
	pthread_mutex_lock(&counting);
	ch->waiting += by;
	pthread_cond_broadcast(&counted);
	pthread_mutex_unlock(&counting);
}

static void waits_no_more(void *ch)
{
	asleep_in = NULL;
	waits(ch, -1);
}

// take takes an event, and sleeps for one if the descriptor says that it waits. An errno; EBADF: the
// channel was closed meanwhile. rdma-core's sleeps on then, and there are programs that end so.
static int take(struct channel *ch, struct rdma_cm_event *event, void *private_data)
{
	int err;
	bool left;
	struct channel *interrupted = asleep_in; // by a signal
	waits(ch, 1);
	asleep_in = ch;
	pthread_cleanup_push(waits_no_more, ch);
	while ((err = ENGINE(cm_get_event, ch->handle, event, private_data)) == EAGAIN)
		if (fcntl(ch->channel.fd, F_GETFL) & O_NONBLOCK || (err = goroce_asleep(ch->channel.fd)))
			break;
	left = ch->left;
	pthread_cleanup_pop(1);
	asleep_in = interrupted;
	if (left) {
		close(ch->channel.fd);
		free(ch);
	}
	while (err == EBADF && !left)
		pause();
	return err;
}

// show_row has an address vector say its row of the GID table as the program sees that.
static void show_row(struct rdma_cm_id *id, struct rdma_ud_param *p)
{
	if (id->verbs)
		goroce_row_from_engine(id->verbs, &p->ah_attr.grh.sgid_index);
}

// The structure is made before an event is taken: there is no way to put one back.
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
	struct event *e = out ? calloc(1, sizeof *e) : NULL;
	int err = e ? 0 : out ? ENOMEM : EINVAL;
	if (err)
		return result(err);
	pthread_cleanup_push(free, e);
	err = take((struct channel *)channel, &e->event, e->private_data);
	pthread_cleanup_pop(err != 0);
	if (err)
		return result(err);
	struct rdma_cm_id *id = e->event.id;
	e->counts = id_of(e->event.listen_id ? e->event.listen_id : id);
	switch (e->event.event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		id->channel = channel;
		if (id_known(id_of(id))) { // the program cannot have its device, so the peer is refused
			rdma_destroy_id(id);
			rdma_ack_cm_event(&e->event);
			return rdma_get_cm_event(channel, out);
		}
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if ((e->event.status = -id_known(id_of(id))))
			e->event.event++; // is the error's number
		break;
	case RDMA_CM_EVENT_MULTICAST_JOIN:
		show_row(id, &e->event.param.ud);
		break;
	case RDMA_CM_EVENT_ESTABLISHED: // of who has accepted it is since then, and may be gone
		if (id_of(id)->asks && id->qp)
			id->qp->state = IBV_QPS_RTS;
		if (id->qp_type == IBV_QPT_UD)
			show_row(id, &e->event.param.ud);
		break;
	default:
		break;
	}
	*out = &e->event;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	struct event *e = (struct event *)event;
	if (!event)
		return result(EINVAL);
	pthread_mutex_lock(&counting);
	e->counts->acked++;
	pthread_cond_broadcast(&counted);
	pthread_mutex_unlock(&counting);
	free(e);
	return 0;
}

static void unlock(void *mutex) { pthread_mutex_unlock(mutex); }

void await_acks(struct id *id, uint32_t reported)
{
	pthread_mutex_lock(&counting);
	pthread_cleanup_push(unlock, &counting);
	while ((int32_t)(reported - id->acked) > 0) // events may come, of an ID that has another channel now
		pthread_cond_wait(&counted, &counting);
	pthread_cleanup_pop(1);
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED", "RDMA_CM_EVENT_ADDR_ERROR", "RDMA_CM_EVENT_ROUTE_RESOLVED",
		"RDMA_CM_EVENT_ROUTE_ERROR", "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR", "RDMA_CM_EVENT_UNREACHABLE", "RDMA_CM_EVENT_REJECTED",
		"RDMA_CM_EVENT_ESTABLISHED", "RDMA_CM_EVENT_DISCONNECTED", "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN", "RDMA_CM_EVENT_MULTICAST_ERROR", "RDMA_CM_EVENT_ADDR_CHANGE",
		"RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};
	return (unsigned)event < sizeof names / sizeof *names ? names[event] : "UNKNOWN EVENT";
}
