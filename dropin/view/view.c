// libgoroce-view.so, which roce run preloads: a program that looks at the kernel's files about RDMA
// devices finds those of the folder that GOROCE_VIEW names. libibverbs.so.1 takes its list of
// devices from the same folder.
//
// Each function of C's library that is given a path is here once more: it changes the path if it is
// one of these, and calls the real one. What a program does with a descriptor, and with any other
// file, is none of this library's.
//
// Stages: which paths; the real functions; those that open, that ask, that list.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

// Folders that are shown, with all that is in them.
static const char *const shown[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs", "/dev/infiniband"};

// led is where a path leads: into the folder, written to other, or where it led before.
static const char *led(const char *path, char other[PATH_MAX])
{
	if (!path || *path != '/')
		return path;
	for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
		size_t n = strlen(shown[i]);
		if (strncmp(path, shown[i], n) || (path[n] && path[n] != '/'))
			continue;
		const char *view = getenv("GOROCE_VIEW");
		return view && snprintf(other, PATH_MAX, "%s%s", view, path) < PATH_MAX ? other : path;
	}
	return path;
}

// real is the function of a name behind this library's, looked up once.
#define REAL(name) \
	({ \
		static __typeof__(name) *f; \
		__typeof__(name) *found = __atomic_load_n(&f, __ATOMIC_RELAXED); \
		if (!found) \
			__atomic_store_n(&f, found = (__typeof__(name) *)dlsym(RTLD_NEXT, #name), __ATOMIC_RELAXED); \
		found; \
	})

// LED(type, name, parameters, arguments) is a function whose path is changed: it is called path.
#define LED(type, name, parameters, ...) \
	type name parameters \
	{ \
		char other[PATH_MAX]; \
		path = led(path, other); \
		return REAL(name)(__VA_ARGS__); \
	}

// Of these the mode comes only with flags that make a file.
#define MODE(flags) \
	mode_t mode = 0; \
	if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
		va_list more; \
		va_start(more, flags); \
		mode = va_arg(more, mode_t); \
		va_end(more); \
	}
#define OPENS(name) \
	int name(const char *path, int flags, ...) \
	{ \
		char other[PATH_MAX]; \
		MODE(flags) \
		return REAL(name)(led(path, other), flags, mode); \
	}
#define OPENS_AT(name) \
	int name(int fd, const char *path, int flags, ...) \
	{ \
		char other[PATH_MAX]; \
		MODE(flags) \
		return REAL(name)(fd, led(path, other), flags, mode); \
	}
OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
int __open_2(const char *, int), __open64_2(const char *, int), __openat_2(int, const char *, int), __openat64_2(int, const char *, int);
LED(int, __open_2, (const char *path, int flags), path, flags)
LED(int, __open64_2, (const char *path, int flags), path, flags)
LED(int, __openat_2, (int fd, const char *path, int flags), fd, path, flags)
LED(int, __openat64_2, (int fd, const char *path, int flags), fd, path, flags)
LED(FILE *, fopen, (const char *path, const char *mode), path, mode)
LED(FILE *, fopen64, (const char *path, const char *mode), path, mode)

// The second group is that of programs of a C library before 2.33.
LED(int, stat, (const char *path, struct stat *out), path, out)
LED(int, stat64, (const char *path, struct stat64 *out), path, out)
LED(int, lstat, (const char *path, struct stat *out), path, out)
LED(int, lstat64, (const char *path, struct stat64 *out), path, out)
LED(int, fstatat, (int fd, const char *path, struct stat *out, int flags), fd, path, out, flags)
LED(int, fstatat64, (int fd, const char *path, struct stat64 *out, int flags), fd, path, out, flags)
LED(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *out), fd, path, flags, mask, out)
int __xstat(int, const char *, struct stat *), __xstat64(int, const char *, struct stat64 *);
int __lxstat(int, const char *, struct stat *), __lxstat64(int, const char *, struct stat64 *);
int __fxstatat(int, int, const char *, struct stat *, int), __fxstatat64(int, int, const char *, struct stat64 *, int);
LED(int, __xstat, (int version, const char *path, struct stat *out), version, path, out)
LED(int, __xstat64, (int version, const char *path, struct stat64 *out), version, path, out)
LED(int, __lxstat, (int version, const char *path, struct stat *out), version, path, out)
LED(int, __lxstat64, (int version, const char *path, struct stat64 *out), version, path, out)
LED(int, __fxstatat, (int version, int fd, const char *path, struct stat *out, int flags), version, fd, path, out, flags)
LED(int, __fxstatat64, (int version, int fd, const char *path, struct stat64 *out, int flags), version, fd, path, out, flags)

LED(int, access, (const char *path, int mode), path, mode)
LED(int, faccessat, (int fd, const char *path, int mode, int flags), fd, path, mode, flags)
LED(ssize_t, getxattr, (const char *path, const char *name, void *out, size_t size), path, name, out, size)
LED(ssize_t, lgetxattr, (const char *path, const char *name, void *out, size_t size), path, name, out, size)
LED(ssize_t, readlink, (const char *path, char *out, size_t size), path, out, size)
LED(ssize_t, readlinkat, (int fd, const char *path, char *out, size_t size), fd, path, out, size)
ssize_t __readlink_chk(const char *, char *, size_t, size_t);
LED(ssize_t, __readlink_chk, (const char *path, char *out, size_t size, size_t room), path, out, size, room)
LED(char *, realpath, (const char *path, char *out), path, out)
char *__realpath_chk(const char *, char *, size_t);
LED(char *, __realpath_chk, (const char *path, char *out, size_t room), path, out, room)
LED(char *, canonicalize_file_name, (const char *path), path)

typedef int chosen(const struct dirent *), order(const struct dirent **, const struct dirent **);
typedef int chosen64(const struct dirent64 *), order64(const struct dirent64 **, const struct dirent64 **);
LED(DIR *, opendir, (const char *path), path)
LED(int, scandir, (const char *path, struct dirent ***out, chosen *which, order *by), path, out, which, by)
LED(int, scandir64, (const char *path, struct dirent64 ***out, chosen64 *which, order64 *by), path, out, which, by)
