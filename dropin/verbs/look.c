// How a device looks: what roce run wrote of it into the file devices of the folder that
// GOROCE_VIEW names. What it writes there for a profile (docs/dropin.md) takes the place of what the
// engine says, or refuses what the engine would do.
//
// The lines of a device, each with a word that says what it is (roce run writes them; a line that
// is none of these is of another version):
//
//	device NAME GOROCE'S-NAME GUID
//	fw_ver TEXT
//	set ATTRIBUTE NUMBER
//	gid ROW TYPE GID INTERFACE      the whole table, if there is one
//	refuse CALL ERRNO AFTER
//
// Stages: attributes by name; reading; what is asked; rows of the table, which the engine numbers in
// its own way; calls that are refused.
#include "objects.h"

#include <inttypes.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// attribute is a member of ibv_device_attr_ex, or of ibv_port_attr.
struct attribute {
	const char *name;
	bool port;
	uint16_t offset, size;
};

#define OF_DEVICE(member) {#member, false, offsetof(struct ibv_device_attr_ex, orig_attr.member), \
	sizeof ((struct ibv_device_attr *)0)->member}
#define OF_PORT(member) {#member, true, offsetof(struct ibv_port_attr, member), sizeof ((struct ibv_port_attr *)0)->member}
static const struct attribute attributes[] = {
	OF_DEVICE(vendor_id), OF_DEVICE(vendor_part_id), OF_DEVICE(hw_ver), OF_DEVICE(max_mr_size), OF_DEVICE(page_size_cap),
	OF_DEVICE(max_qp), OF_DEVICE(max_qp_wr), OF_DEVICE(device_cap_flags), OF_DEVICE(max_sge), OF_DEVICE(max_sge_rd),
	OF_DEVICE(max_cq), OF_DEVICE(max_cqe), OF_DEVICE(max_mr), OF_DEVICE(max_pd), OF_DEVICE(max_qp_rd_atom),
	OF_DEVICE(max_res_rd_atom), OF_DEVICE(max_qp_init_rd_atom), OF_DEVICE(atomic_cap), OF_DEVICE(max_mw),
	OF_DEVICE(max_mcast_grp), OF_DEVICE(max_mcast_qp_attach), OF_DEVICE(max_total_mcast_qp_attach), OF_DEVICE(max_ah),
	OF_DEVICE(max_srq), OF_DEVICE(max_srq_wr), OF_DEVICE(max_srq_sge), OF_DEVICE(max_pkeys), OF_DEVICE(local_ca_ack_delay),
	{"hca_core_clock", false, offsetof(struct ibv_device_attr_ex, hca_core_clock), 8},
	OF_PORT(state), OF_PORT(max_mtu), OF_PORT(active_mtu), OF_PORT(max_msg_sz), OF_PORT(port_cap_flags),
	OF_PORT(bad_pkey_cntr), OF_PORT(active_width), OF_PORT(active_speed), OF_PORT(phys_state),
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes, MAX_ROWS = 256 };

// look is how one device looks.
struct look {
	char fw_ver[64];
	bool set[ATTRIBUTES];
	uint64_t value[ATTRIBUTES];
	int rows; // of the table; 0: it is the engine's
	struct ibv_gid_entry row[MAX_ROWS];
	struct {
		int err, after; // after so many calls they fail
	} refused[REFUSALS];
};

static const char *const refusals[REFUSALS] = {
#define REFUSAL_NAME(name) #name,
	REFUSABLE(REFUSAL_NAME)
};

static bool read_set(struct look *l, const char *rest)
{
	char name[32];
	uint64_t value;
	if (sscanf(rest, "%31s %" SCNu64, name, &value) != 2)
		return false;
	for (int i = 0; i < ATTRIBUTES; i++)
		if (!strcmp(attributes[i].name, name)) {
			l->set[i] = true;
			l->value[i] = value;
			return true;
		}
	return false;
}

static bool read_gid(struct look *l, const char *rest)
{
	int row, type, at = 0;
	char ndev[IF_NAMESIZE];
	if (sscanf(rest, "%d %d %n", &row, &type, &at) != 2 || !at || row != l->rows || row >= MAX_ROWS)
		return false;
	struct ibv_gid_entry *e = &l->row[l->rows++];
	for (int i = 0; i < 16; i++)
		if (sscanf(rest + at + 2 * i, "%2hhx", &e->gid.raw[i]) != 1)
			return false;
	if (sscanf(rest + at + 32, "%15s", ndev) != 1)
		return false;
	e->gid_index = row;
	e->port_num = 1;
	e->gid_type = type;
	e->ndev_ifindex = if_nametoindex(ndev);
	return true;
}

static bool read_refuse(struct look *l, const char *rest)
{
	char name[32];
	int err, after;
	if (sscanf(rest, "%31s %d %d", name, &err, &after) != 3)
		return false;
	for (int i = 0; i < REFUSALS; i++)
		if (!strcmp(refusals[i], name)) {
			l->refused[i].err = err;
			l->refused[i].after = after;
			return true;
		}
	return false;
}

// read_line takes a line into the device before it, or makes another of it.
static bool read_line(const char *line, struct device_list *list, struct device **d)
{
	char word[16], seen[IBV_SYSFS_NAME_MAX], name[IBV_SYSFS_NAME_MAX];
	uint64_t guid;
	int at = 0;
	if (sscanf(line, "%15s %n", word, &at) != 1 || !at)
		return false;
	const char *rest = line + at;
	struct look *l = *d ? (*d)->look : NULL;
	if (!strcmp(word, "device") && sscanf(rest, "%63s %63s %" SCNx64, seen, name, &guid) == 3)
		return (*d = device_add(list, seen, name, htobe64(guid))) && ((*d)->look = calloc(1, sizeof *l));
	if (l && !strcmp(word, "fw_ver"))
		return sscanf(rest, "%63[^\n]", l->fw_ver) == 1;
	return l && ((!strcmp(word, "set") && read_set(l, rest)) || (!strcmp(word, "gid") && read_gid(l, rest)) ||
	             (!strcmp(word, "refuse") && read_refuse(l, rest)));
}

bool look_list(struct device_list *list)
{
	const char *view = getenv("GOROCE_VIEW");
	char path[PATH_MAX], line[256];
	struct device *d = NULL;
	if (!view || !*view)
		return false;
	snprintf(path, sizeof path, "%s/devices", view);
	FILE *f = fopen(path, "re");
	if (!f) {
		fprintf(stderr, "goroce: GOROCE_VIEW: %s: %s; roce run makes it\n", path, strerror(errno));
		return true; // devices that nobody has chosen would be worse than none
	}
	while (fgets(line, sizeof line, f))
		if (!read_line(line, list, &d)) {
			fprintf(stderr, "goroce: %s: a line of another version: %s", path, line);
			break;
		}
	fclose(f);
	return true;
}

// put writes what is set of a structure.
static void put(const struct look *l, bool port, void *out)
{
	for (int i = 0; l && i < ATTRIBUTES; i++) {
		const struct attribute *a = &attributes[i];
		uint8_t *at = (uint8_t *)out + a->offset;
		if (!l->set[i] || a->port != port)
			continue;
		switch (a->size) {
		case 1:
			*at = l->value[i];
			break;
		case 2:
			memcpy(at, &(uint16_t){l->value[i]}, 2);
			break;
		case 4:
			memcpy(at, &(uint32_t){l->value[i]}, 4);
			break;
		case 8:
			memcpy(at, &l->value[i], 8);
		}
	}
}

static struct look *look_of(struct ibv_context *c) { return ((struct device *)c->device)->look; }

void look_device(struct ibv_context *c, struct ibv_device_attr_ex *out)
{
	const struct look *l = look_of(c);
	put(l, false, out);
	if (l && *l->fw_ver)
		memcpy(out->orig_attr.fw_ver, l->fw_ver, sizeof l->fw_ver);
}

void look_port(struct ibv_context *c, struct ibv_port_attr *out)
{
	const struct look *l = look_of(c);
	put(l, true, out);
	if (l && l->rows)
		out->gid_tbl_len = l->rows;
}

int look_gid(struct ibv_context *c, uint32_t index, struct ibv_gid_entry *entry)
{
	const struct look *l = look_of(c);
	if (!l || !l->rows)
		return ENGINE(query_gid, context_of(c)->handle, index, entry);
	if (index >= l->rows)
		return EINVAL;
	*entry = l->row[index];
	return 0;
}

// The engine speaks RoCE v2 from its own addresses: a row of the table is one of its rows by the
// GID. A row of v1, or with another's address, is there to be seen.
int look_to_engine(struct ibv_context *c, uint8_t *index)
{
	const struct look *l = look_of(c);
	if (!l || !l->rows)
		return 0;
	if (*index >= l->rows)
		return EINVAL;
	const struct ibv_gid_entry *want = &l->row[*index];
	struct ibv_gid_entry have;
	for (uint32_t i = 0; want->gid_type == IBV_GID_TYPE_ROCE_V2 && !ENGINE(query_gid, context_of(c)->handle, i, &have); i++)
		if (!memcmp(&have.gid, &want->gid, sizeof have.gid)) {
			*index = i;
			return 0;
		}
	if (getenv("GOROCE_DEBUG"))
		fprintf(stderr, "goroce: %s: row %d of the GID table is of RoCE v1, or empty, or no address of the device's\n",
		        c->device->name, *index);
	return want->gid_type == IBV_GID_TYPE_ROCE_V2 ? EADDRNOTAVAIL : EPROTONOSUPPORT;
}

void look_row_of(struct ibv_context *c, const union ibv_gid *gid, uint8_t *index)
{
	struct ibv_gid_entry e;
	for (int i = 0; i < MAX_ROWS && !look_gid(c, i, &e); i++)
		if (e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&e.gid, gid, sizeof *gid)) {
			*index = i;
			return;
		}
}

void goroce_row_from_engine(struct ibv_context *c, uint8_t *index)
{
	const struct look *l = look_of(c);
	struct ibv_gid_entry have;
	if (l && l->rows && !ENGINE(query_gid, context_of(c)->handle, *index, &have))
		look_row_of(c, &have.gid, index);
}

bool look_beyond(struct ibv_context *c, const char *attribute, uint64_t n)
{
	const struct look *l = look_of(c);
	for (int i = 0; l && i < ATTRIBUTES; i++)
		if (l->set[i] && !strcmp(attributes[i].name, attribute))
			return n > l->value[i];
	return false;
}

int look_refuses(struct device *d, enum refusal which)
{
	struct look *l = d->look;
	if (!l || !l->refused[which].err || __atomic_fetch_sub(&l->refused[which].after, 1, __ATOMIC_RELAXED) > 0)
		return 0;
	__atomic_store_n(&l->refused[which].after, 0, __ATOMIC_RELAXED);
	if (getenv("GOROCE_DEBUG"))
		fprintf(stderr, "goroce: %s: %s is refused, as its profile wants\n", d->device.name, refusals[which]);
	return l->refused[which].err;
}
