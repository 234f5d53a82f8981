/* The parts of libSystem that are called too often for Python, or that call back. One thread, and memory that is never
   given back. */

typedef unsigned long size_t;
typedef unsigned char byte;
#define SHARED __attribute__((visibility("default")))

/* In Python. */
extern void mac_code_stop(const char *reason) __attribute__((noreturn));

/* Memory */

static char *heap, *heap_last;

SHARED void mac_code_set_heap(char *begin, char *end) {
  heap = begin;
  heap_last = end;
}

SHARED char *mac_code_heap(void) { return heap; }

static void *allocate(size_t alignment, size_t size) {
  char *found = (char *)(((size_t)heap + 16 + alignment - 1) & ~(alignment - 1));
  size = (size + 15) & ~15ul;
  if (size > (size_t)(heap_last - found)) {
    mac_code_stop("the heap is full");
  }
  ((size_t *)found)[-1] = size;
  heap = found + size;
  return found;
}

SHARED void *malloc(size_t size) { return allocate(16, size); }
SHARED void free(void *memory) { (void)memory; }
SHARED size_t malloc_size(const void *memory) { return memory ? ((const size_t *)memory)[-1] : 0; }
SHARED void *aligned_alloc(size_t alignment, size_t size) { return allocate(alignment < 16 ? 16 : alignment, size); }

SHARED int posix_memalign(void **result, size_t alignment, size_t size) {
  *result = aligned_alloc(alignment, size);
  return 0;
}

/* Bytes */

SHARED void *memset(void *to, int value, size_t size) {
  byte *next = to;
  for (; size && ((size_t)next & 7); size--) *next++ = (byte)value;
  const size_t eight = (byte)value * 0x0101010101010101ul;
  for (; size >= 8; size -= 8, next += 8) *(size_t *)next = eight;
  while (size--) *next++ = (byte)value;
  return to;
}

SHARED void *memcpy(void *to, const void *from, size_t size) {
  byte *next = to;
  const byte *source = from;
  for (; size >= 8; size -= 8, next += 8, source += 8) *(size_t *)next = *(const size_t *)source;
  while (size--) *next++ = *source++;
  return to;
}

SHARED void *memmove(void *to, const void *from, size_t size) {
  byte *last = (byte *)to + size;
  const byte *source = (const byte *)from + size;
  if ((byte *)to <= (const byte *)from || (byte *)to >= source) {
    return memcpy(to, from, size);
  }
  while (size--) *--last = *--source;
  return to;
}

SHARED void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }

SHARED void *realloc(void *old, size_t size) {
  void *result = malloc(size);
  const size_t before = malloc_size(old);
  return memcpy(result, old, before < size ? before : size);
}

SHARED void bzero(void *to, size_t size) { memset(to, 0, size); }
SHARED void *__memcpy_chk(void *to, const void *from, size_t size, size_t room) {
  return size <= room ? memcpy(to, from, size) : (mac_code_stop("memcpy writes past its end"), to);
}
SHARED void *__memmove_chk(void *to, const void *from, size_t size, size_t room) {
  return size <= room ? memmove(to, from, size) : (mac_code_stop("memmove writes past its end"), to);
}
SHARED void *__memset_chk(void *to, int value, size_t size, size_t room) {
  return size <= room ? memset(to, value, size) : (mac_code_stop("memset writes past its end"), to);
}

SHARED void memset_pattern16(void *to, const void *pattern, size_t size) {
  for (size_t i = 0; i < size; i++) ((byte *)to)[i] = ((const byte *)pattern)[i & 15];
}

SHARED int memcmp(const void *left, const void *right, size_t size) {
  const byte *a = left, *b = right;
  for (; size--; a++, b++) {
    if (*a != *b) return *a - *b;
  }
  return 0;
}

SHARED void *memchr(const void *in, int value, size_t size) {
  for (const byte *next = in; size--; next++) {
    if (*next == (byte)value) return (void *)next;
  }
  return 0;
}

/* Strings */

SHARED size_t strlen(const char *text) {
  size_t size = 0;
  while (text[size]) size++;
  return size;
}

SHARED int strncmp(const char *left, const char *right, size_t size) {
  for (; size--; left++, right++) {
    if (*left != *right) return (byte)*left - (byte)*right;
    if (!*left) break;
  }
  return 0;
}

SHARED int strcmp(const char *left, const char *right) { return strncmp(left, right, ~0ul); }

SHARED char *strchr(const char *in, int value) {
  for (;; in++) {
    if (*in == (char)value) return (char *)in;
    if (!*in) return 0;
  }
}

SHARED char *strrchr(const char *in, int value) {
  char *found = 0;
  for (;; in++) {
    if (*in == (char)value) found = (char *)in;
    if (!*in) return found;
  }
}

SHARED char *strstr(const char *in, const char *what) {
  const size_t size = strlen(what);
  for (;; in++) {
    if (!strncmp(in, what, size)) return (char *)in;
    if (!*in) return 0;
  }
}

SHARED char *strcpy(char *to, const char *from) { return memcpy(to, from, strlen(from) + 1); }
SHARED char *strdup(const char *text) { return strcpy(malloc(strlen(text) + 1), text); }

/* Threads: there is one, and a wait for another one stops. */

struct mutex { long signature; int recursive, held; };

SHARED int pthread_mutexattr_init(int *attributes) { return *attributes = 0; }
SHARED int pthread_mutexattr_destroy(int *attributes) { return 0 & (long)attributes; }
/* PTHREAD_MUTEX_RECURSIVE */
SHARED int pthread_mutexattr_settype(int *attributes, int type) { return *attributes = type == 2, 0; }

SHARED int pthread_mutex_init(struct mutex *mutex, const int *attributes) {
  mutex->held = 0;
  mutex->recursive = attributes ? *attributes : 0;
  return 0;
}

SHARED int pthread_mutex_destroy(struct mutex *mutex) { return 0 & (long)mutex; }

SHARED int pthread_mutex_lock(struct mutex *mutex) {
  /* PTHREAD_RECURSIVE_MUTEX_INITIALIZER's signature */
  if (mutex->held && !mutex->recursive && mutex->signature != 0x32AAABA2) mac_code_stop("a lock waits for itself");
  mutex->held++;
  return 0;
}

SHARED int pthread_mutex_unlock(struct mutex *mutex) {
  if (!mutex->held) mac_code_stop("a lock that is not held is given back");
  mutex->held--;
  return 0;
}

struct shared_lock { long signature; int readers, writers; };

SHARED int pthread_rwlock_init(struct shared_lock *lock, const void *attributes) {
  lock->readers = lock->writers = 0;
  return 0 & (long)attributes;
}
SHARED int pthread_rwlock_destroy(struct shared_lock *lock) { return 0 & (long)lock; }
SHARED int pthread_rwlock_rdlock(struct shared_lock *lock) {
  if (lock->writers) mac_code_stop("a lock waits for itself");
  return lock->readers++, 0;
}
SHARED int pthread_rwlock_wrlock(struct shared_lock *lock) {
  if (lock->writers || lock->readers) mac_code_stop("a lock waits for itself");
  return lock->writers++, 0;
}
SHARED int pthread_rwlock_unlock(struct shared_lock *lock) {
  if (lock->writers) return lock->writers--, 0;
  if (!lock->readers) mac_code_stop("a lock that is not held is given back");
  return lock->readers--, 0;
}

SHARED int pthread_cond_init(void *condition, const void *attributes) { return 0 & (long)condition & (long)attributes; }
SHARED int pthread_cond_destroy(void *condition) { return 0 & (long)condition; }
SHARED int pthread_cond_signal(void *condition) { return 0 & (long)condition; }
SHARED int pthread_cond_broadcast(void *condition) { return 0 & (long)condition; }

struct once { long signature, done; };

SHARED int pthread_once(struct once *once, void (*function)(void)) {
  if (once->signature != 1) {
    once->signature = 1;
    function();
  }
  return 0;
}

static void *specific[512];
static unsigned long keys = 1;

SHARED int pthread_key_create(unsigned long *key, void (*destroy)(void *)) {
  (void)destroy;
  if (keys == 512) mac_code_stop("there are too many keys of threads");
  return *key = keys++, 0;
}
SHARED void *pthread_getspecific(unsigned long key) { return specific[key]; }
SHARED int pthread_setspecific(unsigned long key, const void *value) { return specific[key] = (void *)value, 0; }

/* A thread-local variable: the second word of its description is the block, the third its offset there. Changes no other
   register than x0. */
__attribute__((naked)) SHARED void _tlv_bootstrap(void) {
  __asm__("stp x16, x17, [sp, #-16]!\n"
          "ldr x16, [x0, #8]\n"
          "ldr x17, [x0, #16]\n"
          "add x0, x16, x17\n"
          "ldp x16, x17, [sp], #16\n"
          "ret");
}

/* The stack is there already. Changes no register. */
__attribute__((naked)) SHARED void __chkstk_darwin(void) { __asm__("ret"); }

/* dyld */

extern unsigned _dyld_image_count(void);
extern const void *_dyld_get_image_header(unsigned number);

SHARED void _dyld_register_func_for_add_image(void (*function)(const void *header, long slide)) {
  for (unsigned i = 0; i < _dyld_image_count(); i++) {
    function(_dyld_get_image_header(i), (long)_dyld_get_image_header(i));
  }
}
