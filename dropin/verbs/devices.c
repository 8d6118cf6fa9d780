// The list of devices. Nothing is opened for it, and no Go is loaded: a device is a name and a GUID
// until somebody opens it.
//
// Which devices there are: those that roce run has chosen (look.c); else those that GOROCE_DEVICES
// names, by their names in goroce, separated by commas ("udp:10.0.0.1,udp:eth1"); without it one for
// each interface that has an address.
//
// Stages: names, GUIDs, the list, what is asked of a device in it.
#define _GNU_SOURCE
#include "objects.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GUID_BYTES = 8 };

// address is the IP address of a socket address, as a GID; false: it is none.
static bool address(const struct sockaddr *from, uint8_t gid[16])
{
	if (from && from->sa_family == AF_INET) {
		memset(gid, 0, 10);
		memset(gid + 10, 0xff, 2);
		memcpy(gid + 12, &((const struct sockaddr_in *)from)->sin_addr, 4);
		return true;
	}
	if (from && from->sa_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
		return true;
	}
	return false;
}

// parse reads an IP address as a GID.
static bool parse(const char *text, uint8_t gid[16])
{
	memcpy(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);
	return inet_pton(AF_INET, text, gid + 12) == 1 || inet_pton(AF_INET6, text, gid) == 1;
}

// guid_of is the EUI-64 of the MAC address of the interface that has a name or an address, or
// without one the lower half of the GID, as the device will say when it is open.
static __be64 guid_of(const struct ifaddrs *all, const char *name)
{
	uint8_t guid[GUID_BYTES] = {0}, want[16], gid[16];
	const char *colon = strchr(name, ':');
	const char *what = colon ? colon + 1 : name;
	const char *interface = what;
	bool addressed = parse(what, want);
	if (addressed)
		memcpy(guid, want + 8, GUID_BYTES);
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!address(a->ifa_addr, gid))
			continue;
		if (addressed && !memcmp(gid, want, sizeof gid))
			interface = a->ifa_name;
		else if (!addressed && !strcmp(a->ifa_name, what) && !*(uint64_t *)guid)
			memcpy(guid, gid + 8, GUID_BYTES);
	}
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != AF_PACKET || strcmp(a->ifa_name, interface))
			continue;
		const uint8_t *mac = ((struct sockaddr_ll *)a->ifa_addr)->sll_addr;
		if (memcmp(mac, "\0\0\0\0\0\0", 6)) {
			uint8_t eui[GUID_BYTES] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
			memcpy(guid, eui, sizeof guid);
		}
	}
	__be64 out;
	memcpy(&out, guid, sizeof out);
	return out;
}

// device_add makes a device, of a name that programs see and one of goroce's, and appends it to the
// list; NULL: the list is full, or memory is.
struct device *device_add(struct device_list *list, const char *seen, const char *name, __be64 guid)
{
	struct device *d = list->n < MAX_DEVICES ? calloc(1, sizeof *d) : NULL;
	if (!d)
		return NULL;
	snprintf(d->name, sizeof d->name, "%s", name);
	d->guid = guid;
	d->references = 1;
	d->device.node_type = IBV_NODE_CA;
	d->device.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->device.name, sizeof d->device.name, "%s", seen);
	snprintf(d->device.dev_name, sizeof d->device.dev_name, "uverbs%d", list->n);
	snprintf(d->device.dev_path, sizeof d->device.dev_path, "/sys/class/infiniband_verbs/uverbs%d", list->n);
	snprintf(d->device.ibdev_path, sizeof d->device.ibdev_path, "/sys/class/infiniband/%s", d->device.name);
	list->devices[list->n++] = &d->device;
	return d;
}

// add appends the device of a name of goroce's, which programs see as roce and its number.
static void add(struct device_list *list, const struct ifaddrs *all, const char *name, size_t length)
{
	char seen[IBV_SYSFS_NAME_MAX], own[IBV_SYSFS_NAME_MAX];
	snprintf(seen, sizeof seen, "roce%d", list->n);
	snprintf(own, sizeof own, "%.*s", (int)length, name);
	device_add(list, seen, own, guid_of(all, own));
}

// first says whether an entry is the first address of its interface.
static bool first(const struct ifaddrs *all, const struct ifaddrs *a)
{
	uint8_t gid[16];
	for (const struct ifaddrs *b = all; b != a; b = b->ifa_next)
		if (address(b->ifa_addr, gid) && !strcmp(a->ifa_name, b->ifa_name))
			return false;
	return address(a->ifa_addr, gid) && a->ifa_flags & IFF_UP;
}

// discover appends the devices that nobody has chosen; an errno.
static int discover(struct device_list *list)
{
	struct ifaddrs *all = NULL;
	if (getifaddrs(&all))
		return ENOMEM;
	const char *names = getenv("GOROCE_DEVICES");
	if (names && *names)
		for (const char *at = names; *at; at += strspn(at, ",")) {
			size_t length = strcspn(at, ",");
			if (length > 0)
				add(list, all, at, length);
			at += length;
		}
	else
		for (struct ifaddrs *a = all; a; a = a->ifa_next)
			if (first(all, a)) {
				char name[IBV_SYSFS_NAME_MAX];
				add(list, all, name, snprintf(name, sizeof name, "udp:%s", a->ifa_name));
			}
	freeifaddrs(all);
	return 0;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct device_list list = {.devices = calloc(MAX_DEVICES + 1, sizeof *list.devices)};
	int err = list.devices ? 0 : ENOMEM;
	if (!err && !look_list(&list))
		err = discover(&list);
	if (num)
		*num = list.n;
	if (err) {
		free(list.devices);
		return failed(err);
	}
	return list.devices;
}

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

void device_put(struct device *d)
{
	pthread_mutex_lock(&counting);
	bool last = --d->references == 0;
	pthread_mutex_unlock(&counting);
	if (last) {
		free(d->look);
		free(d);
	}
}

void ibv_free_device_list(struct ibv_device **list)
{
	for (struct ibv_device **d = list; d && *d; d++)
		device_put((struct device *)*d);
	free(list);
}

const char *goroce_device_name(struct ibv_device *d) { return ((struct device *)d)->name; }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
__be64 ibv_get_device_guid(struct ibv_device *d) { return ((struct device *)d)->guid; }
int ibv_get_device_index(struct ibv_device *d) { return atoi(d->dev_name + strlen("uverbs")) + 1; }

const char *ibv_get_sysfs_path(void)
{
	const char *path = getenv("SYSFS_PATH");
	return path ? path : "/sys";
}

int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t size)
{
	char path[1024];
	snprintf(path, sizeof path, "%s/%s", folder, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, text, size);
	close(fd);
	if (n < 0)
		return -1;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	else if ((size_t)n == size)
		return -1;
	text[n] = 0;
	return n;
}
