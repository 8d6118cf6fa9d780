// A job of Gloo's over its transport by ibverbs: gloo FOLDER RANK RANKS. The ranks meet by files in
// a folder, sum and broadcast, and compare.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

// An algorithm stays until the program ends: Gloo ends a program that destroys one whose sends have
// not all been said to be complete, and does not wait for them.
template <class Algorithm>
static void sums(const std::shared_ptr<gloo::Context>& context, const char* name)
{
	for (int size : {1, 1000, 300000}) {
		std::vector<double>& data = *new std::vector<double>(size); // an algorithm has it registered
		for (int i = 0; i < size; i++)
			data[i] = i + context->rank;
		(new Algorithm(context, {data.data()}, size))->run();
		for (int i = 0; i < size; i++)
			if (data[i] != double(i) * context->size + context->size * (context->size - 1) / 2) {
				fprintf(stderr, "rank %d: %s: sum %d of %d is %f\n", context->rank, name, i, size, data[i]);
				exit(1);
			}
	}
}

int main(int, char** argv)
{
	int rank = atoi(argv[2]), ranks = atoi(argv[3]);
	gloo::transport::ibverbs::attr attr;
	attr.name = gloo::transport::ibverbs::getDeviceNames().at(0);
	attr.port = 1;
	attr.index = 0;
	auto device = gloo::transport::ibverbs::CreateDevice(attr);
	gloo::rendezvous::FileStore store(argv[1]);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
	context->connectFullMesh(store, device);
	sums<gloo::AllreduceRingChunked<double>>(context, "ring");
	sums<gloo::AllreduceHalvingDoubling<double>>(context, "halving and doubling");
	std::vector<double> data(300000, rank);
	(new gloo::BroadcastOneToAll<double>(context, {data.data()}, data.size(), ranks - 1))->run();
	for (double d : data)
		if (d != ranks - 1) {
			fprintf(stderr, "rank %d: %f was not broadcast\n", rank, d);
			return 1;
		}
	(new gloo::BarrierAllToAll(context))->run();
	printf("rank %d: right, over %s\n", rank, device->str().c_str());
	exit(0);
}
