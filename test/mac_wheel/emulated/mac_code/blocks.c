/* Blocks: what the compiler calls to keep them and what they captured. */

typedef unsigned long size_t;
#define SHARED __attribute__((visibility("default")))

enum { CAPTURES_OBJECT = 3, CAPTURES_BLOCK = 7, CAPTURES_VARIABLE = 8, KIND = 15, IS_COPY = 128 };
enum { COUNT = 0xFFFE, ONE = 2, ON_HEAP = 1 << 24, HAS_HELPERS = 1 << 25, IS_GLOBAL = 1 << 28 };

typedef struct {
  size_t reserved, size;
  void (*copy)(void *to, const void *from);
  void (*dispose)(const void *block);
} Description;

typedef struct {
  const void *isa;
  int flags, reserved;
  void *invoke;
  const Description *description;
} Block;

typedef struct Variable {
  void *isa;
  struct Variable *home;
  int flags, size;
  void (*copy)(struct Variable *to, struct Variable *from);
  void (*dispose)(struct Variable *variable);
} Variable;

extern void *malloc(size_t size);
extern void *memmove(void *to, const void *from, size_t size);

static void *(*retain)(const void *object), (*release)(const void *object);
static const void *heap_class;

/* The functions for objects, and the class of blocks on the heap. */
SHARED void mac_code_set_blocks(void *retains(const void *), void releases(const void *), const void *class) {
  retain = retains, release = releases, heap_class = class;
}

SHARED void *_Block_copy(const void *block) {
  Block *found = (Block *)block;
  if (!found || found->flags & IS_GLOBAL) return found;
  if (found->flags & ON_HEAP) return found->flags += ONE, found;
  Block *made = memmove(malloc(found->description->size), found, found->description->size);
  made->isa = heap_class;
  made->flags = (found->flags & ~COUNT) | ON_HEAP | ONE;
  if (made->flags & HAS_HELPERS) made->description->copy(made, found);
  return made;
}

SHARED void _Block_release(const void *block) {
  Block *found = (Block *)block;
  if (!found || !(found->flags & ON_HEAP) || (found->flags -= ONE) & COUNT) return;
  if (found->flags & HAS_HELPERS) found->description->dispose(found);
}

/* The variable on the stack and its copy both lead to the copy, and each has a count of it. */
static Variable *share(Variable *found) {
  Variable *home = found->home;
  if (home->flags & ON_HEAP) return home->flags += ONE, home;
  home = memmove(malloc(found->size), found, found->size);
  home->flags = (found->flags & ~COUNT) | ON_HEAP | 2 * ONE;
  found->home = home->home = home;
  if (home->flags & HAS_HELPERS) home->copy(home, found);
  return home;
}

static void drop(Variable *found) {
  Variable *home = found->home;
  if (!(home->flags & ON_HEAP) || (home->flags -= ONE) & COUNT) return;
  if (home->flags & HAS_HELPERS) home->dispose(home);
}

SHARED void _Block_object_assign(const void **to, const void *from, int flags) {
  const int kind = flags & IS_COPY ? 0 : flags & KIND;
  *to = kind == CAPTURES_OBJECT     ? retain(from)
      : kind == CAPTURES_BLOCK      ? _Block_copy(from)
      : kind & CAPTURES_VARIABLE    ? share((Variable *)from)
                                    : from;
}

SHARED void _Block_object_dispose(const void *object, int flags) {
  const int kind = flags & IS_COPY ? 0 : flags & KIND;
  if (kind == CAPTURES_OBJECT) release(object);
  if (kind == CAPTURES_BLOCK) _Block_release(object);
  if (kind & CAPTURES_VARIABLE && kind != CAPTURES_BLOCK) drop((Variable *)object);
}
