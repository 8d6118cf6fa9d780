// What C and the engine both know of sockets.
#ifndef GOROCE_RSOCKET_H
#define GOROCE_RSOCKET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

// What a program has set. Sizes count before a connection is made, the others at any time.
struct goroce_rs_options {
	uint32_t send_buffer, receive_buffer; // bytes
	uint32_t depth, maps;
	int32_t keepalive; // s; 0: the engine's choice
	int32_t linger;    // s; -1: the engine's choice
	uint8_t reuse_addr, v6only;
};

// One of the sockets of an rpoll.
struct goroce_rs_poll {
	uint32_t handle;
	int number; // the descriptor, to sleep on
	short events, revents;
};

// What goroce_rs_status tells.
enum { GOROCE_RS_ERROR, GOROCE_RS_SEGMENT };

#endif
