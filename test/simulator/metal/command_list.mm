#import "metal/command_list.h"

#include <cstdlib>
#include <mutex>

namespace mps_simulator {

struct CommandList::Chunk {
  Chunk* next;
  size_t size;
};

namespace {

constexpr size_t kChunkSize = 64 * 1024;
constexpr size_t kMostSpareChunks = 64;
constexpr size_t kHeader = 16;

// Chunks are reused, so that a steady loop of encoding calls malloc() never.
struct Spares {
  std::mutex mutex;
  void* chunks[kMostSpareChunks];
  size_t count = 0;
};

Spares& spares() {
  static auto* instance = new Spares;
  return *instance;
}

} // namespace

void CommandList::grow(size_t size) {
  static_assert(sizeof(Chunk) <= kHeader);
  const bool ordinary = size + kHeader <= kChunkSize;
  void* memory = nullptr;
  if (ordinary) {
    auto& spare = spares();
    const std::lock_guard<std::mutex> lock(spare.mutex);
    if (spare.count) {
      memory = spare.chunks[--spare.count];
    }
  }
  const size_t bytes = ordinary ? kChunkSize : size + kHeader;
  if (!memory) {
    memory = std::malloc(bytes);
    if (!memory) {
      throw std::bad_alloc();
    }
  }
  chunks_ = new (memory) Chunk{chunks_, bytes};
  cursor_ = static_cast<char*>(memory) + kHeader;
  end_ = static_cast<char*>(memory) + bytes;
}

void CommandList::clear() {
  for (auto* command = first_; command;) {
    auto* next = command->next;
    command->~GpuCommand();
    command = next;
  }
  for (auto* chunk = chunks_; chunk;) {
    auto* next = chunk->next;
    void* memory = chunk;
    if (chunk->size == kChunkSize) {
      auto& spare = spares();
      const std::lock_guard<std::mutex> lock(spare.mutex);
      if (spare.count < kMostSpareChunks) {
        spare.chunks[spare.count++] = memory;
        memory = nullptr;
      }
    }
    std::free(memory);
    chunk = next;
  }
  chunks_ = nullptr;
  cursor_ = end_ = nullptr;
  first_ = last_ = nullptr;
  size_ = 0;
  pass_ = nullptr;
  needs_null_mode_ = false;
}

void CommandList::shuffle_behind(GpuCommand* before, c10::function_ref<uint64_t()> next) {
  std::vector<GpuCommand*> commands;
  for (auto* command = before ? before->next : first_; command; command = command->next) {
    commands.push_back(command);
  }
  if (commands.size() < 2) {
    return;
  }
  for (size_t i = commands.size() - 1; i > 0; --i) {
    std::swap(commands[i], commands[next() % (i + 1)]);
  }
  (before ? before->next : first_) = commands.front();
  for (size_t i = 1; i < commands.size(); ++i) {
    commands[i - 1]->next = commands[i];
  }
  commands.back()->next = nullptr;
  last_ = commands.back();
}

} // namespace mps_simulator
