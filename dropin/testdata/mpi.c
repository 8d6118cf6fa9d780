// An MPI job, which knows nothing of verbs.
//
//	mpi together ROUNDS   everybody sends to everybody, in sizes for all that UCX does, and compares each
//	                      byte; rank 0 then waits for the end of its input, so that others can look
//	mpi for-ever          that until somebody ends it
//	mpi latency SIZE N    ranks 0 and 1 send to and fro
//	mpi bandwidth SIZE N  rank 0 sends to rank 1, WINDOW messages between two answers
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW 64

static int rank, ranks;

static void *memory(size_t n)
{
	void *p = malloc(n);
	if (!p) {
		fprintf(stderr, "rank %d: no memory for %zu bytes\n", rank, n);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	return p;
}

// byte_of is which byte is at a place of what one rank sends another in a round.
static unsigned char byte_of(int from, int to, int round, size_t at)
{
	unsigned x = (unsigned)at * 2654435761u + (unsigned)(from * 131 + to * 31 + round * 7);
	return (unsigned char)(x >> 24 ^ x >> 11);
}

// exchange is one of all with all. It returns how many bytes are wrong.
static long exchange(size_t size, int round, unsigned char *out, unsigned char *in)
{
	for (int to = 0; to < ranks; to++)
		for (size_t i = 0; i < size; i++)
			out[to * size + i] = byte_of(rank, to, round, i);
	memset(in, 0, ranks * size);
	MPI_Alltoall(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD);
	long wrong = 0;
	for (int from = 0; from < ranks; from++)
		for (size_t i = 0; i < size; i++)
			wrong += in[from * size + i] != byte_of(from, rank, round, i);
	return wrong;
}

static int together(int rounds)
{
	static const size_t sizes[] = {1, 8, 1000, 8192, 65536, 300000};
	enum { kinds = sizeof sizes / sizeof *sizes };
	size_t most = sizes[kinds - 1] * ranks;
	unsigned char *out = memory(most), *in = memory(most);
	long bytes = 0;
	for (int round = 0; rounds < 0 || round < rounds; round++) {
		for (int i = 0; i < kinds; i++) {
			long wrong = exchange(sizes[i], round, out, in), all;
			MPI_Allreduce(&wrong, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
			if (all) {
				if (!rank)
					printf("wrong: %ld bytes of messages of %zu\n", all, sizes[i]);
				return 1;
			}
			bytes += (long)sizes[i] * ranks;
		}
		if (!round && rounds < 0) {
			printf("rank %d is process %ld\n", rank, (long)getpid());
			fflush(stdout);
		}
	}
	if (!rank) {
		printf("right: %ld bytes of each of %d ranks\n", bytes, ranks);
		fflush(stdout);
		while (getchar() != EOF)
			;
	}
	MPI_Barrier(MPI_COMM_WORLD);
	free(out);
	free(in);
	return 0;
}

static void latency(size_t size, int n)
{
	char *buffer = memory(size + 1);
	memset(buffer, 1, size + 1);
	double began = 0;
	for (int i = -n / 10; i < n; i++) {
		if (!i)
			began = MPI_Wtime();
		for (int turn = 0; turn < 2; turn++)
			if (rank == turn)
				MPI_Send(buffer, (int)size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD);
			else
				MPI_Recv(buffer, (int)size, MPI_BYTE, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	if (!rank)
		printf("latency of %zu bytes: %.3f us one way\n", size, (MPI_Wtime() - began) * 1e6 / n / 2);
	free(buffer);
}

static void bandwidth(size_t size, int n)
{
	char *buffer = memory(size * WINDOW), answer = 0;
	memset(buffer, 1, size * WINDOW);
	MPI_Request all[WINDOW];
	double began = 0;
	for (int i = -n / 10 / WINDOW - 1; i < n / WINDOW; i++) {
		if (!i)
			began = MPI_Wtime();
		for (int k = 0; k < WINDOW; k++)
			if (rank)
				MPI_Irecv(buffer + k * size, (int)size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &all[k]);
			else
				MPI_Isend(buffer + k * size, (int)size, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &all[k]);
		MPI_Waitall(WINDOW, all, MPI_STATUSES_IGNORE);
		if (rank)
			MPI_Send(&answer, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
		else
			MPI_Recv(&answer, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	if (!rank)
		printf("bandwidth of %zu bytes: %.3f Gbit/s\n", size,
		       (double)size * (n / WINDOW * WINDOW) * 8 / (MPI_Wtime() - began) / 1e9);
	free(buffer);
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const char *what = argc > 1 ? argv[1] : "";
	int first = argc > 2 ? atoi(argv[2]) : 0, second = argc > 3 ? atoi(argv[3]) : 0, failed = 0;
	if (!strcmp(what, "together"))
		failed = together(first);
	else if (!strcmp(what, "for-ever"))
		failed = together(-1);
	else if (!strcmp(what, "latency") && rank < 2)
		latency(first, second);
	else if (!strcmp(what, "bandwidth") && rank < 2)
		bandwidth(first, second);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	return failed;
}
