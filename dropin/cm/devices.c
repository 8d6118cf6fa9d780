// The devices of the connection manager: those of ibv_get_device_list. The engine opens one when an
// address of it is needed, and finds it by its name; a program sees it in a context that all IDs on
// it share. Neither is closed before the process ends.
//
// Stages: the list; a context, with domains for who names none; what programs ask for.
#include "cm.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device **list; // NULL: not asked for yet
static int count;

// open is a device that is open.
static struct open {
	struct ibv_context *context; // NULL: it is not
	struct ibv_pd *domain;       // NULL: nobody has asked for it
	struct ibv_xrcd *xrcd;
} *opened;

// ready does it with the lock.
static int ready(void)
{
	char **names = NULL;
	int err = goroce_engine_load();
	if (err || list)
		return err;
	struct ibv_device **devices = ibv_get_device_list(&count);
	opened = calloc(count + 1, sizeof *opened);
	names = calloc(count + 1, sizeof *names);
	err = devices && opened && names ? 0 : ENOMEM;
	for (int i = 0; !err && i < count; i++)
		names[i] = (char *)goroce_device_name(devices[i]);
	const char *chosen = getenv("GOROCE_DEVICES");
	if (!err)
		err = ENGINE(cm_devices, names, count, chosen && *chosen);
	free(names);
	if (!err) {
		list = devices;
		return 0;
	}
	free(opened);
	if (devices)
		ibv_free_device_list(devices);
	return err;
}

int cm_ready(void)
{
	pthread_mutex_lock(&opening);
	int err = ready();
	pthread_mutex_unlock(&opening);
	return err;
}

struct ibv_context *cm_context(int index)
{
	pthread_mutex_lock(&opening);
	if (!opened[index].context)
		opened[index].context = ibv_open_device(list[index]);
	struct ibv_context *c = opened[index].context;
	pthread_mutex_unlock(&opening);
	return c;
}

// of is a context of ours; NULL: it is another's. The caller has the lock.
static struct open *of(struct ibv_context *c)
{
	for (int i = 0; i < count; i++)
		if (opened[i].context == c)
			return &opened[i];
	errno = EINVAL;
	return NULL;
}

struct ibv_pd *cm_domain(struct ibv_context *c)
{
	pthread_mutex_lock(&opening);
	struct open *o = of(c);
	if (o && !o->domain)
		o->domain = ibv_alloc_pd(c);
	pthread_mutex_unlock(&opening);
	return o ? o->domain : NULL;
}

struct ibv_xrcd *cm_xrcd(struct ibv_context *c)
{
	pthread_mutex_lock(&opening);
	struct open *o = of(c);
	struct ibv_xrcd_init_attr any = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	if (o && !o->xrcd)
		o->xrcd = ibv_open_xrcd(c, &any);
	pthread_mutex_unlock(&opening);
	return o ? o->xrcd : NULL;
}

// Devices that cannot be opened, as another process has their addresses, are left out.
struct ibv_context **rdma_get_devices(int *num)
{
	int n = 0, err = cm_ready();
	struct ibv_context **all = err ? NULL : calloc(count + 1, sizeof *all);
	if (!err && !all)
		err = ENOMEM;
	for (int i = 0; !err && i < count; i++)
		if ((all[n] = cm_context(i)))
			n++;
	if (!err && n == 0)
		err = ENODEV;
	if (num)
		*num = err ? 0 : n;
	if (!err)
		return all;
	free(all);
	errno = err;
	return NULL;
}

void rdma_free_devices(struct ibv_context **devices) { free(devices); }
