// The engine's functions for the connection manager (verbs/engine.h says how they are called).
#ifndef CM_FUNCTIONS_H
#define CM_FUNCTIONS_H

struct ibv_qp_attr;
struct ibv_sa_path_rec;
struct rdma_cm_event;
struct rdma_cm_id;
struct rdma_conn_param;

#define ENGINE_FUNCTIONS_CM(F) \
	F(cm_devices, (char **names, int n, int chosen)) \
	F(cm_create_channel, (void *born, void *unborn, int *fd, uint32_t *handle)) \
	F(cm_destroy_channel, (uint32_t channel)) \
	F(cm_get_event, (uint32_t channel, struct rdma_cm_event *, void *private_data)) \
	F(cm_create_id, (uint32_t channel, int port_space, struct rdma_cm_id *, uint32_t *handle)) \
	F(cm_destroy_id, (uint32_t id, uint32_t *reported)) \
	F(cm_migrate_id, (uint32_t id, uint32_t channel, uint32_t *reported)) \
	F(cm_known, (uint32_t id, struct ibv_sa_path_rec *, int *device)) \
	F(cm_bind_addr, (uint32_t id, const void *addr)) \
	F(cm_resolve_addr, (uint32_t id, const void *src, const void *dst, int ms)) \
	F(cm_resolve_route, (uint32_t id, int ms)) \
	F(cm_listen, (uint32_t id, int backlog)) \
	F(cm_connect, (uint32_t id, struct rdma_conn_param *)) \
	F(cm_accept, (uint32_t id, struct rdma_conn_param *)) \
	F(cm_reject, (uint32_t id, const void *private_data, uint8_t length)) \
	F(cm_establish, (uint32_t id)) \
	F(cm_disconnect, (uint32_t id)) \
	F(cm_init_qp_attr, (uint32_t id, struct ibv_qp_attr *, int *mask)) \
	F(cm_set_option, (uint32_t id, int name, int value)) \
	F(cm_mcast, (uint32_t id, const void *group, int join, int send_only, uintptr_t context))

#endif
