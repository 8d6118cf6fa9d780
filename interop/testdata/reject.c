/*
 * reject: one end of a connection that does not come to be, over librdmacm.
 *
 *   reject server ADDRESS PORT TEXT   refuses the first request, with TEXT as private data
 *   reject client ADDRESS PORT        asks, and prints what it hears: event, status, private data
 *
 * Stages: the address; the server; the client, whose queue pair is a number alone; what it heard.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

static struct rdma_event_channel *channel;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct rdma_cm_event *next(void)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	return event;
}

/* must takes the next event, which must be of a type. */
static void must(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *event = next();

	if (event->event != want) {
		fprintf(stderr, "%s, status %d, instead of %s\n", rdma_event_str(event->event), event->status, rdma_event_str(want));
		exit(1);
	}
	rdma_ack_cm_event(event);
}

static struct sockaddr_storage parse(const char *address, const char *port)
{
	struct sockaddr_storage at = {0};
	struct sockaddr_in *v4 = (struct sockaddr_in *)&at;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&at;

	if (inet_pton(AF_INET, address, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons(atoi(port));
	} else if (inet_pton(AF_INET6, address, &v6->sin6_addr) == 1) {
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons(atoi(port));
	} else {
		fprintf(stderr, "%s: no address\n", address);
		exit(1);
	}
	return at;
}

static void serve(struct rdma_cm_id *id, struct sockaddr *at, const char *text)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *asks;

	if (rdma_bind_addr(id, at) || rdma_listen(id, 1))
		die("rdma_listen");
	event = next();
	asks = event->id;
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		die("no request");
	rdma_ack_cm_event(event);
	if (rdma_reject(asks, text, strlen(text)))
		die("rdma_reject");
	rdma_destroy_id(asks);
	printf("refused\n");
}

static void ask(struct rdma_cm_id *id, struct sockaddr *at)
{
	struct rdma_conn_param param = {.qp_num = 77, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_event *event;

	if (rdma_resolve_addr(id, NULL, at, 2000))
		die("rdma_resolve_addr");
	must(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		die("rdma_resolve_route");
	must(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (rdma_connect(id, &param))
		die("rdma_connect");
	event = next();
	printf("%s status %d private \"%.*s\"\n", rdma_event_str(event->event), event->status,
	       event->param.conn.private_data_len, (const char *)event->param.conn.private_data);
	rdma_ack_cm_event(event);
}

int main(int argc, char **argv)
{
	struct sockaddr_storage at;
	struct rdma_cm_id *id;

	if (argc != 5 && !(argc == 4 && !strcmp(argv[1], "client"))) {
		fprintf(stderr, "usage: %s server ADDRESS PORT TEXT, or client ADDRESS PORT\n", argv[0]);
		return 2;
	}
	at = parse(argv[2], argv[3]);
	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	if (argc == 5)
		serve(id, (struct sockaddr *)&at, argv[4]);
	else
		ask(id, (struct sockaddr *)&at);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return 0;
}
