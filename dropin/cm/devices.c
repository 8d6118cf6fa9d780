// The devices of the connection manager: those of ibv_get_device_list. The engine opens one when an
// address of it is needed, and finds it by its name; a program sees it in a context that all IDs on
// it share. Neither is closed before the process ends.
//
// Stages: the list; a context; what programs ask for.
#include "cm.h"

#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_device **list; // NULL: not asked for yet
static struct ibv_context **contexts;
static int count;

// ready does it with the lock.
static int ready(void)
{
	char **names = NULL;
	int err = goroce_engine_load();
	if (err || list)
		return err;
	struct ibv_device **devices = ibv_get_device_list(&count);
	contexts = calloc(count + 1, sizeof *contexts);
	names = calloc(count + 1, sizeof *names);
	err = devices && contexts && names ? 0 : ENOMEM;
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
	free(contexts);
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
	if (!contexts[index])
		contexts[index] = ibv_open_device(list[index]);
	struct ibv_context *c = contexts[index];
	pthread_mutex_unlock(&opening);
	return c;
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
