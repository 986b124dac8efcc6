/* Preloaded into a process: counts the calls that change what lies below one directory, and at a
   chosen one ends the process or fails. May also keep a copy of what was synced, which is what a
   power cut leaves behind.

   FAULT_DIRECTORY  absolute path of the directory
   FAULT_CONTROL    file that holds one struct Control, shared with whoever chooses the fault
   FAULT_SYNCED     directory for the copies: contents/INODE and listings/INODE */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum Action { COUNT, KILL, TORN, FAIL, SHORT };

struct Control {
    int32_t is_armed;
    int32_t action;
    int32_t at;         /* the call that is hit, from 1 */
    int32_t error;      /* errno of FAIL */
    int32_t is_lasting; /* FAIL: every later call too */
    int32_t keeps_synced;
    int32_t num_calls;
    int32_t num_hits;
};

static struct Control *control;
static char directory[PATH_MAX];
static char synced[PATH_MAX];

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void stop(const char *why) {
    dprintf(2, "fault shim: %s\n", why);
    abort();
}

__attribute__((constructor)) static void set_up(void) {
    const char *own = getenv("FAULT_DIRECTORY"), *file = getenv("FAULT_CONTROL");
    if (!own || !file) return;
    snprintf(directory, sizeof directory, "%s", own);
    if (getenv("FAULT_SYNCED")) snprintf(synced, sizeof synced, "%s", getenv("FAULT_SYNCED"));
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) stop("no control file");
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) stop("the control file can not be mapped");
    close(fd);
}

static int is_below(const char *path) {
    size_t length = strlen(directory);
    return length && !strncmp(path, directory, length) && (path[length] == '/' || !path[length]);
}

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int is_ours(int fd) {
    char path[PATH_MAX];
    return control && path_of(fd, path) && is_below(path);
}

static int is_ours_at(int parent, const char *path) {
    char whole[2 * PATH_MAX];
    if (!control) return 0;
    if (path[0] == '/') return is_below(path);
    if (parent == AT_FDCWD || !path_of(parent, whole)) return 0;
    return is_below(whole);
}

/* What is to happen to this call: COUNT lets it pass. */
static int next_action(int takes_space) {
    if (!__atomic_load_n(&control->is_armed, __ATOMIC_SEQ_CST)) return COUNT;
    int call = __atomic_add_fetch(&control->num_calls, 1, __ATOMIC_SEQ_CST);
    int is_hit = control->is_lasting ? call >= control->at : call == control->at;
    if (control->action == COUNT || !is_hit) return COUNT;
    /* A full disk gives space back. */
    if (control->action == FAIL && control->error == ENOSPC && !takes_space) return COUNT;
    __atomic_add_fetch(&control->num_hits, 1, __ATOMIC_SEQ_CST);
    if (control->action == KILL) kill(getpid(), SIGKILL);
    return control->action;
}

/* For calls that either happen or not. */
static int fails(int takes_space) {
    switch (next_action(takes_space)) {
    case TORN:
        kill(getpid(), SIGKILL);
        return 1;
    case FAIL:
        errno = control->error;
        return 1;
    default:
        return 0;
    }
}

static void copy_place(char *place, const char *kind, ino_t inode) {
    snprintf(place, PATH_MAX + 64, "%s/%s/%lu", synced, kind, (unsigned long)inode);
}

static void forget(int fd, const char *kind) {
    char place[PATH_MAX + 64];
    struct stat found;
    if (!control || !control->keeps_synced || fstat(fd, &found)) return;
    copy_place(place, kind, found.st_ino);
    remove(place);
}

static void keep_content(int fd, ino_t inode) {
    char place[PATH_MAX + 64], fresh[PATH_MAX + 80], source[64], piece[65536];
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd); /* fd may be write-only */
    copy_place(place, "contents", inode);
    snprintf(fresh, sizeof fresh, "%s.new", place);
    int from = open(source, O_RDONLY | O_CLOEXEC);
    int to = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t length;
    if (from < 0 || to < 0) stop("a synced file can not be copied");
    while ((length = read(from, piece, sizeof piece)) > 0)
        if (write(to, piece, length) != length) stop("the copy of a synced file is cut");
    close(from);
    close(to);
    if (rename(fresh, place)) stop("the copy of a synced file can not be kept");
}

static void keep_listing(int fd, ino_t inode) {
    char place[PATH_MAX + 64], source[64];
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    copy_place(place, "listings", inode);
    DIR *entries = opendir(source);
    FILE *out = fopen(place, "we");
    struct dirent *entry;
    if (!entries || !out) stop("a synced directory can not be listed");
    while ((entry = readdir(entries)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            fprintf(out, "%lu %d %s\n", (unsigned long)entry->d_ino, entry->d_type == DT_DIR,
                    entry->d_name);
    closedir(entries);
    fclose(out);
}

static int sync_with(int (*real)(int), int fd) {
    struct stat found;
    if (!is_ours(fd)) return real(fd);
    if (fails(0)) return -1;
    int result = real(fd);
    if (!result && control->keeps_synced && !fstat(fd, &found)) {
        if (S_ISDIR(found.st_mode)) keep_listing(fd, found.st_ino);
        if (S_ISREG(found.st_mode)) keep_content(fd, found.st_ino);
    }
    return result;
}

int fsync(int fd) { REAL(fsync); return sync_with(real, fd); }
int fdatasync(int fd) { REAL(fdatasync); return sync_with(real, fd); }

/* Half of a write at least 2 bytes long; a whole one else. */
static ssize_t write_with(int fd, const void *data, size_t size, off64_t offset, int is_at) {
    REAL(write);
    static __typeof__(&pwrite64) real_at;
    if (!real_at) real_at = (__typeof__(&pwrite64))dlsym(RTLD_NEXT, "pwrite64");
    int action = is_ours(fd) ? next_action(1) : COUNT;
    if (action == FAIL) {
        errno = control->error;
        return -1;
    }
    if ((action == SHORT || action == TORN) && size > 1) size /= 2;
    ssize_t written = is_at ? real_at(fd, data, size, offset) : real(fd, data, size);
    if (action == TORN) kill(getpid(), SIGKILL);
    return written;
}

ssize_t write(int fd, const void *data, size_t size) { return write_with(fd, data, size, 0, 0); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return write_with(fd, data, size, offset, 1);
}
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return write_with(fd, data, size, offset, 1);
}

static int open_with(int parent, const char *path, int flags, mode_t mode) {
    REAL(openat64);
    int changes = (flags & (O_CREAT | O_TRUNC)) && is_ours_at(parent, path);
    if (!changes) return real(parent, path, flags, mode);
    if (fails(1)) return -1;
    int is_new = faccessat(parent, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
    int fd = real(parent, path, flags, mode);
    if (fd >= 0 && is_new) forget(fd, "contents");
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return open_with(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return open_with(AT_FDCWD, path, flags, mode); }
int openat(int parent, const char *path, int flags, ...) { MODE(flags) return open_with(parent, path, flags, mode); }
int openat64(int parent, const char *path, int flags, ...) { MODE(flags) return open_with(parent, path, flags, mode); }

static int make_directory(int parent, const char *path, mode_t mode) {
    REAL(mkdirat);
    int is_counted = is_ours_at(parent, path);
    if (is_counted && fails(1)) return -1;
    int result = real(parent, path, mode);
    if (!result && is_counted) {
        int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0) {
            forget(fd, "listings");
            close(fd);
        }
    }
    return result;
}

int mkdir(const char *path, mode_t mode) { return make_directory(AT_FDCWD, path, mode); }
int mkdirat(int parent, const char *path, mode_t mode) { return make_directory(parent, path, mode); }

#define PASS(condition, takes_space, name, ...) \
    REAL(name); \
    if ((condition) && fails(takes_space)) return -1; \
    return real(__VA_ARGS__)

int ftruncate(int fd, off_t size) { PASS(is_ours(fd), 0, ftruncate, fd, size); }
int ftruncate64(int fd, off64_t size) { PASS(is_ours(fd), 0, ftruncate64, fd, size); }
int rename(const char *a, const char *b) { PASS(is_ours_at(AT_FDCWD, b), 1, rename, a, b); }
int renameat(int i, const char *a, int j, const char *b) { PASS(is_ours_at(j, b), 1, renameat, i, a, j, b); }
int link(const char *a, const char *b) { PASS(is_ours_at(AT_FDCWD, b), 1, link, a, b); }
int unlink(const char *path) { PASS(is_ours_at(AT_FDCWD, path), 0, unlink, path); }
int unlinkat(int parent, const char *path, int flags) { PASS(is_ours_at(parent, path), 0, unlinkat, parent, path, flags); }
int rmdir(const char *path) { PASS(is_ours_at(AT_FDCWD, path), 0, rmdir, path); }

/* Ways to write that the store does not use. Were it to, the count above would miss them. */
#define UNUSED(condition, name, ...) \
    REAL(name); \
    if (condition) stop(#name " is not watched"); \
    return real(__VA_ARGS__)

ssize_t writev(int fd, const struct iovec *parts, int count) { UNUSED(is_ours(fd), writev, fd, parts, count); }
ssize_t copy_file_range(int i, off64_t *a, int o, off64_t *b, size_t n, unsigned flags) {
    UNUSED(is_ours(o), copy_file_range, i, a, o, b, n, flags);
}
ssize_t sendfile(int o, int i, off_t *offset, size_t n);
ssize_t sendfile(int o, int i, off_t *offset, size_t n) { UNUSED(is_ours(o), sendfile, o, i, offset, n); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
    UNUSED(is_ours(fd), fallocate64, fd, mode, offset, length);
}
int posix_fallocate64(int fd, off64_t offset, off64_t length) {
    UNUSED(is_ours(fd), posix_fallocate64, fd, offset, length);
}
