// A library to be preloaded: an address handle without a GRH, which no RoCE device makes, gets that
// of the way to the device itself, from row GIDROW of its table. librdmacm's datagram rsockets make
// theirs so (docs/rsocket.md, section 11).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *(*create)(struct ibv_pd *, struct ibv_ah_attr *) = dlvsym(RTLD_NEXT, "ibv_create_ah", "IBVERBS_1.1");
	int (*query)(struct ibv_context *, uint8_t, int, union ibv_gid *) = dlvsym(RTLD_NEXT, "ibv_query_gid", "IBVERBS_1.1");
	struct ibv_ah_attr with = *attr;

	if (!with.is_global) {
		with.is_global = 1;
		with.grh.sgid_index = atoi(getenv("GIDROW"));
		with.grh.hop_limit = 64;
		if (query(pd->context, attr->port_num, with.grh.sgid_index, &with.grh.dgid))
			return NULL;
	}
	return create(pd, &with);
}
