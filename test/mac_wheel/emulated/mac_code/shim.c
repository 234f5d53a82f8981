/* The parts of libSystem that are called too often for Python, or that call back. There is one thread, so that locks need
   nothing, and memory is never given back. */

typedef unsigned long size_t;
typedef unsigned char byte;
#define SHARED __attribute__((visibility("default")))
#define SUCCEEDS(name) SHARED int name(void) { return 0; }

static char *heap, *heap_end;

SHARED void mac_code_set_heap(char *begin, char *end) { heap = begin, heap_end = end; }
SHARED char *mac_code_heap(void) { return heap; }

SHARED void *aligned_alloc(size_t alignment, size_t size) {
  char *found = (char *)(((size_t)heap + 16 + alignment - 1) & -alignment);
  size = (size + 15) & ~15ul;
  if (size > (size_t)(heap_end - found)) __builtin_trap();
  ((size_t *)found)[-1] = size;
  return heap = found + size, found;
}

SHARED void *malloc(size_t size) { return aligned_alloc(16, size); }
SHARED void free(void *memory) {}
SHARED int posix_memalign(void **to, size_t alignment, size_t size) { return *to = aligned_alloc(alignment, size), 0; }

SHARED void *memset(byte *to, int value, size_t size) {
  for (size_t i = 0; i < size; i++) to[i] = (byte)value;
  return to;
}

SHARED void *memmove(byte *to, const byte *from, size_t size) {
  for (size_t i = 0; to < from && i < size; i++) to[i] = from[i];
  while (to > from && size--) to[size] = from[size];
  return to;
}

SHARED void bzero(byte *to, size_t size) { memset(to, 0, size); }
SHARED void *memcpy(byte *to, const byte *from, size_t size) { return memmove(to, from, size); }
SHARED void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }

SHARED void *realloc(void *old, size_t size) {
  const size_t before = old ? ((size_t *)old)[-1] : 0;
  return memmove(malloc(size), old, before < size ? before : size);
}

SHARED void memset_pattern16(byte *to, const byte *pattern, size_t size) {
  for (size_t i = 0; i < size; i++) to[i] = pattern[i & 15];
}

SHARED int memcmp(const byte *left, const byte *right, size_t size) {
  for (; size--; left++, right++)
    if (*left != *right) return *left - *right;
  return 0;
}

SHARED const void *memchr(const byte *in, int value, size_t size) {
  for (; size--; in++)
    if (*in == (byte)value) return in;
  return 0;
}

SHARED size_t strlen(const char *text) { return (const char *)memchr((const byte *)text, 0, ~0ul) - text; }

SHARED int strncmp(const byte *left, const byte *right, size_t size) {
  for (; size--; left++, right++)
    if (*left != *right || !*left) return *left - *right;
  return 0;
}

SHARED int strcmp(const byte *left, const byte *right) { return strncmp(left, right, ~0ul); }

SHARED const char *strstr(const char *text, const char *wanted) {
  for (const size_t size = strlen(wanted); *text; text++)
    if (!strncmp((const byte *)text, (const byte *)wanted, size)) return text;
  return 0;
}

SHARED char *strdup(const char *text) { return memmove(malloc(strlen(text) + 1), text, strlen(text) + 1); }

SUCCEEDS(pthread_mutexattr_init) SUCCEEDS(pthread_mutexattr_settype) SUCCEEDS(pthread_mutexattr_destroy)
SUCCEEDS(pthread_mutex_init) SUCCEEDS(pthread_mutex_destroy) SUCCEEDS(pthread_mutex_lock) SUCCEEDS(pthread_mutex_unlock)
SUCCEEDS(pthread_mutex_trylock) SUCCEEDS(pthread_rwlock_rdlock) SUCCEEDS(pthread_rwlock_unlock) SUCCEEDS(pthread_atfork)
SUCCEEDS(pthread_cond_init) SUCCEEDS(pthread_cond_broadcast) SUCCEEDS(pthread_cond_signal)

SHARED int pthread_once(long once[2], void (*function)(void)) {
  if (!once[1]) once[1] = 1, function();
  return 0;
}

static const void *specific[512];
static unsigned long keys = 1;

SHARED int pthread_key_create(unsigned long *key) { return keys < 512 ? (*key = keys++, 0) : 35; }
SHARED const void *pthread_getspecific(unsigned long key) { return specific[key]; }
SHARED int pthread_setspecific(unsigned long key, const void *value) { return specific[key] = value, 0; }

/* The stack is there already. */
__attribute__((naked)) SHARED void __chkstk_darwin(void) { __asm__("ret"); }

/* A thread-local variable: the second word of its description is the block, the third its offset. Only x0 may change. */
__attribute__((naked)) SHARED void _tlv_bootstrap(void) {
  __asm__("stp x16, x17, [sp, #-16]!\n ldp x16, x17, [x0, #8]\n add x0, x16, x17\n ldp x16, x17, [sp], #16\n ret");
}
