// Loading the engine, in a program that knows nothing of Go. What could go wrong there is told in
// docs/dropin.md, with what is done about it here:
//
// - Its threads inherit a mask that blocks all signals, so that the program's signals stay on the
//   program's threads.
// - A signal handler that did not ask for a stack of its own (SA_ONSTACK) runs on that of a
//   goroutine, if one is running. So these have room: they do not shrink (lend_setting), and each
//   thread's is grown once (goroce_engine_ready).
// - It is loaded late, when the first device is opened: a program that forks before that may use it
//   in the child, and Go's handlers of signals come after the program's.
// - It is never unloaded.
//
// Stages: a setting for Go; loading; a thread's first call; fork; the end of the process.
#define _GNU_SOURCE
#include "engine.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct engine goroce_engine;
__thread volatile int goroce_engine_entered;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static bool loaded, lost;

// Go reads its settings from the environment that the process began with, which lies behind its
// arguments: what setenv does comes too late. Libraries are told where that is.
static char **first_environment;

__attribute__((constructor)) static void remember(int argc, char **argv, char **envp) { first_environment = envp; }

// lend_setting has one of the variables there be GODEBUG with the setting, and returns which. Go
// keeps the text, so it is never freed. What should be there instead is put back when Go has read
// it: if there is no GODEBUG, Go does not see the last variable that is not for it or us.
static char **lend_setting(char **before)
{
	static const char setting[] = "gcshrinkstackoff=1", name[] = "GODEBUG=";
	char **at = NULL, *text = NULL;
	bool has = false;
	for (char **e = first_environment; e && *e && !has; e++) {
		has = !strncmp(*e, name, strlen(name));
		if (has || strncmp(*e, "GO", 2))
			at = e;
	}
	if (!at)
		return NULL;
	if (asprintf(&text, "%s,%s", has ? *at : "GODEBUG=", setting) < 0)
		return NULL;
	*before = *at;
	*at = text;
	return at;
}

// beside is the path of a file in this library's folder; false: it has none.
static bool beside(const char *file, char path[PATH_MAX])
{
	Dl_info self;
	if (!dladdr((void *)beside, &self) || !self.dli_fname)
		return false;
	const char *slash = strrchr(self.dli_fname, '/');
	int folder = slash ? slash - self.dli_fname + 1 : 0;
	int n = snprintf(path, PATH_MAX, "%.*s%s", folder, self.dli_fname, file);
	return n > 0 && n < PATH_MAX;
}

// find looks the functions up; the name of one that is missing, or NULL.
static const char *find(void *library)
{
#define ENGINE_FIND(name, prototype) \
	if (!(*(void **)&goroce_engine.name = dlsym(library, "goroce_" #name))) \
		return "goroce_" #name;
	ENGINE_FUNCTIONS(ENGINE_FIND)
	return NULL;
}

static void after_fork(void)
{
	lost = true;
	goroce_engine_entered = GOROCE_NEVER;
}

static sem_t flushed;

static void *flush(void *unused)
{
	bool ready = goroce_engine_ready();
	for (int sockets = 0; sockets < 2; sockets++) {
		if (ready)
			goroce_engine.flush(sockets);
		sem_post(&flushed);
	}
	return NULL;
}

// The process ends whatever becomes of its peers: another thread may hold what a flush waits for and
// never let go of it, or this one may, if it is a signal's handler that ends the process under Go.
// So a thread of its own flushes, and has its time: sockets wait for what they have sent to arrive.
static void at_end(void)
{
	static const int seconds[] = {2, 10}; // without sockets and with
	struct timespec until;
	sigset_t all, before;
	pthread_t thread;
	if (!loaded || lost)
		return;
	sem_init(&flushed, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int err = pthread_create(&thread, NULL, flush, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		flush(NULL);
	for (int i = 0; i < 2; i++) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += seconds[i];
		while (sem_clockwait(&flushed, CLOCK_MONOTONIC, &until))
			if (errno != EINTR)
				return;
	}
}

// load does it with all signals blocked.
static int load(void)
{
	char path[PATH_MAX];
	if (!beside("libgoroce-engine.so", path))
		return ENOENT;
	char *before = NULL, **lent = lend_setting(&before);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	const char *missing = library ? find(library) : NULL;
	if (library && !missing)
		goroce_engine.grow_stack(); // which waits until Go is there
	if (lent)
		*lent = before;
	if (!library) {
		fprintf(stderr, "goroce: %s\n", dlerror());
		return ELIBACC;
	}
	if (missing) {
		fprintf(stderr, "goroce: %s has no %s: it is of another version\n", path, missing);
		return ELIBBAD;
	}
	pthread_atfork(NULL, NULL, after_fork);
	atexit(at_end);
	return 0;
}

int goroce_engine_load(void)
{
	int err = 0;
	sigset_t all, before;
	pthread_mutex_lock(&loading);
	if (lost)
		err = EIO;
	else if (!loaded) {
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, &before);
		err = load();
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		loaded = !err;
	}
	pthread_mutex_unlock(&loading);
	return err;
}

bool goroce_engine_ready(void)
{
	if (!loaded || lost || goroce_engine_entered == GOROCE_INSIDE)
		return false;
	sigset_t all, before; // until the stack has grown there is no room for a handler
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	goroce_engine.grow_stack();
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	goroce_engine_entered = GOROCE_OUTSIDE;
	return true;
}
