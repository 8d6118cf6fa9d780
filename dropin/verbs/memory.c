// Protection domains, regions, windows and address handles: the public structures around the
// engine's objects.
#include "objects.h"

#include <stdlib.h>
#include <string.h>

// end closes an object and frees its structure; an errno.
static int end(uint32_t handle, void *object)
{
	int err = ENGINE(close, handle);
	if (!err)
		free(object);
	return err;
}

// domain is a protection domain, or a parent domain, which stands for one: both have its handle.
struct domain {
	struct ibv_pd pd;
	bool parent;
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct domain *d = calloc(1, sizeof *d);
	int err = d ? REFUSES(c, alloc_pd) : ENOMEM;
	if (!err)
		err = ENGINE(alloc_pd, context_of(c)->handle, &d->pd.handle);
	if (err) {
		free(d);
		return failed(err);
	}
	d->pd.context = c;
	return &d->pd;
}

struct ibv_pd *alloc_parent_domain(struct ibv_context *c, struct ibv_parent_domain_init_attr *attr)
{
	struct domain *d = attr->pd ? calloc(1, sizeof *d) : NULL;
	if (!d)
		return failed(attr->pd ? ENOMEM : EINVAL);
	d->pd = (struct ibv_pd){.context = c, .handle = attr->pd->handle};
	d->parent = true;
	return &d->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (((struct domain *)pd)->parent) {
		free(pd);
		return 0;
	}
	return end(pd->handle, pd);
}

// A thread domain is a promise that saves locks, of which there are none to save here.
struct ibv_td *alloc_td(struct ibv_context *c, struct ibv_td_init_attr *attr)
{
	struct ibv_td *td = calloc(1, sizeof *td);
	if (td)
		td->context = c;
	return td;
}

int dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}

// region is a structure for a region, filled in by make.
static struct ibv_mr *region(struct ibv_pd *pd, void *addr, size_t length, int err, struct ibv_mr *mr)
{
	if (err) {
		free(mr);
		return failed(err);
	}
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	int err = mr ? REFUSES(pd->context, reg_mr) : ENOMEM;
	if (look_beyond(pd->context, "max_mr_size", length))
		err = EINVAL;
	if (!err)
		err = ENGINE(reg_mr, pd->handle, (uintptr_t)addr, length, iova, access, mr);
	return region(pd, addr, length, err, mr);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access);
}

struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct ibv_mr *mr = calloc(1, sizeof *mr);
	int err = mr ? ENGINE(alloc_null_mr, pd->handle, mr) : ENOMEM;
	return region(pd, NULL, SIZE_MAX, err, mr);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	bool moved = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	int err = ENGINE(rereg_mr, mr->handle, flags, flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0, moved ? addr : mr->addr,
	                 moved ? length : mr->length, access, mr);
	if (err) {
		errno = err;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (moved) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr) { return end(mr->handle, mr); }

// No page is pinned here, so there is nothing to prefetch.
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list, uint32_t n)
{
	return 0;
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof *mw);
	int err = mw ? REFUSES(pd->context, alloc_mw) : ENOMEM;
	if (!err)
		err = ENGINE(alloc_mw, pd->handle, type, mw);
	if (err) {
		free(mw);
		return failed(err);
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	return mw;
}

int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	int err = ENGINE(bind_mw, qp->handle, mw, bind);
	if (err)
		errno = err;
	return err;
}

int dealloc_mw(struct ibv_mw *mw) { return end(mw->handle, mw); }

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof *ah);
	struct ibv_ah_attr own = *attr;
	int err = ah ? REFUSES(pd->context, create_ah) : ENOMEM;
	if (!err && own.is_global)
		err = look_to_engine(pd->context, &own.grh.sgid_index);
	if (!err)
		err = ENGINE(create_ah, pd->handle, &own, &ah->handle);
	if (err) {
		free(ah);
		return failed(err);
	}
	ah->context = pd->context;
	ah->pd = pd;
	return ah;
}

// grh_is_ipv4 says whether what is in front of a datagram is an IPv4 header in the second half.
static bool grh_is_ipv4(const struct ibv_grh *grh)
{
	return ((const uint8_t *)grh)[20] >> 4 == 4 && ((const uint8_t *)grh)[0] >> 4 != 6;
}

int ibv_init_ah_from_wc(struct ibv_context *c, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	int err = wc->wc_flags & IBV_WC_GRH ? ENGINE(ah_from_grh, grh, attr) : EINVAL;
	if (err) {
		errno = err;
		return -1;
	}
	union ibv_gid to = grh->dgid; // of IPv4 the header lies in the second half, and ends with it
	if (grh_is_ipv4(grh))
		memcpy(memcpy(to.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12) + 12, (uint8_t *)grh + 36, 4);
	look_row_of(c, &to, &attr->grh.sgid_index);
	attr->port_num = port;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

int ibv_destroy_ah(struct ibv_ah *ah) { return end(ah->handle, ah); }
