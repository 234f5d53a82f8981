#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <vector>

using namespace at::mps;

static std::atomic<int> executables_alive{0};

/// Says of its tensors what it is told to.
@interface MPSTestExecutable : NSObject
@property(nonatomic, retain) NSArray<MPSGraphTensor*>* feedTensors;
@property(nonatomic, retain) NSArray<MPSGraphTensor*>* targetTensors;
@property(nonatomic) MPSGraphOptions options;
@end

@implementation MPSTestExecutable
- (instancetype)init {
  self = [super init];
  executables_alive++;
  return self;
}
- (void)dealloc {
  [_feedTensors release];
  [_targetTensors release];
  executables_alive--;
  [super dealloc];
}
@end

/// Compiles to an MPSTestExecutable.
@interface MPSTestGraph : MPSGraph {
 @public
  std::function<void()> while_compiling;
  std::function<NSArray*(NSArray*)> change_feeds;
  std::function<NSArray*(NSArray*)> change_targets;
  bool fails;
}
@end

@implementation MPSTestGraph
- (MPSGraphExecutable*)compileWithDevice:(MPSGraphDevice*)device
                                   feeds:(NSDictionary<MPSGraphTensor*, MPSGraphShapedType*>*)feeds
                           targetTensors:(NSArray<MPSGraphTensor*>*)targetTensors
                        targetOperations:(NSArray<MPSGraphOperation*>*)targetOperations
                   compilationDescriptor:(MPSGraphCompilationDescriptor*)compilationDescriptor {
  if (while_compiling) {
    while_compiling();
  }
  if (fails) {
    return nil;
  }
  MPSTestExecutable* executable = [[MPSTestExecutable new] autorelease];
  executable.feedTensors = change_feeds ? change_feeds(feeds.allKeys) : feeds.allKeys;
  executable.targetTensors = change_targets ? change_targets(targetTensors) : targetTensors;
  return (MPSGraphExecutable*)executable;
}
@end

class MPSExecutableCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
    clearExecutableCache();
    setExecutableCacheLimit(1024);
    executables_alive = 0;
  }

  void TearDown() override {
    clearExecutableCache();
    setExecutableCacheLimit(1024);
    EXPECT_EQ(executables_alive, 0);
  }

  static MPSTestGraph* newGraph() {
    return [MPSTestGraph new];
  }

  /// Asks for the executable of a graph with two inputs and a result, of this length.
  static MPSExecutableRun get(MPSTestGraph* graph,
                              NSUInteger length = 4,
                              size_t* inputs = nullptr,
                              MPSDataType type = MPSDataTypeFloat32) {
    MPSExecutableRun run;
    @autoreleasepool {
      if (graph.placeholderTensors.count == 0) {
        for (NSString* name in @[ @"first", @"second" ]) {
          [graph placeholderWithShape:@[ @-1 ] dataType:MPSDataTypeFloat32 name:name];
        }
      }
      NSArray<MPSGraphTensor*>* placeholders = graph.placeholderTensors;
      id<MTLDevice> device = MPSDevice::getInstance()->device();
      id<MTLBuffer> buffer = [[device newBufferWithLength:length * sizeof(float)
                                                  options:MTLResourceStorageModeShared] autorelease];
      NSMutableArray* data = [NSMutableArray array];
      for (int i = 0; i < 3; i++) {
        [data addObject:[[[MPSGraphTensorData alloc] initWithMTLBuffer:buffer shape:@[ @(length) ]
                                                              dataType:type] autorelease]];
      }
      // a placeholder serves as result as well
      run = MPSExecutableCache::getInstance().get(graph,
                                                  @{placeholders[0] : data[0], placeholders[1] : data[1]},
                                                  @{placeholders[1] : data[2]},
                                                  device,
                                                  getCurrentMPSStream()->compilationDescriptor());
      if (inputs) {
        *inputs = run.inputs.count;
      }
      // only whether it is there is looked at from here on
    }
    return run;
  }
};

TEST_F(MPSExecutableCacheTest, EvictedExecutablesAreFreed) {
  setExecutableCacheLimit(2);
  std::vector<MPSTestGraph*> graphs;
  for (int i = 0; i < 20; i++) {
    graphs.push_back(newGraph());
    EXPECT_TRUE(get(graphs.back()).executable);
    EXPECT_LE(executables_alive, 2);
  }
  EXPECT_EQ(executableCacheStats().evictions, 18);
  setExecutableCacheLimit(0);
  EXPECT_EQ(executables_alive, 0);
  for (MPSTestGraph* graph : graphs) {
    [graph release];
  }
}

TEST_F(MPSExecutableCacheTest, OtherLengthsAndTypesAreOtherExecutables) {
  auto* graph = newGraph();
  for (const NSUInteger length : {4, 8}) {
    for (const auto type : {MPSDataTypeFloat32, MPSDataTypeInt32}) {
      EXPECT_TRUE(get(graph, length, nullptr, type).executable);
    }
  }
  EXPECT_EQ(executableCacheStats().misses, 4);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, OptionsAreNotThoseOfTheGraph) {
  MPSTestGraph* graph = newGraph();
  graph.options = MPSGraphOptionsNone;
  EXPECT_EQ(get(graph).executable.options, MPSGraphOptionsDefault);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, ForgottenGraphsAreFreed) {
  auto* graph = newGraph();
  MPSExecutableCache::getInstance().noteKey(graph, "known");
  EXPECT_TRUE(get(graph).executable);
  EXPECT_EQ(executableCacheEntries().at(0).key, "known");
  MPSExecutableCache::getInstance().forgetGraphs();
  EXPECT_EQ(executables_alive, 0);
  EXPECT_EQ(executableCacheStats().entries, 0);
  EXPECT_EQ(executableCacheStatsByKey().at("known").misses, 1);
  // another graph may lie where it was
  EXPECT_TRUE(get(graph).executable);
  EXPECT_EQ(executableCacheEntries().at(0).key, "");
  [graph release];
}

TEST_F(MPSExecutableCacheTest, OthersLookUpWhileOneCompiles) {
  auto* known = newGraph();
  get(known);
  auto* slow = newGraph();
  bool looked_up = false;
  slow->while_compiling = [&] {
    auto other = std::async(std::launch::async, [&] {
      executableCacheStats();
      executableCacheEntries();
      setExecutableCacheLimit(512);
      return get(known).executable != nil;
    });
    // it would wait for this thread, and this one for it
    looked_up = other.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    if (!looked_up) {
      // what waits for ever can't be joined
      std::fprintf(stderr, "the cache is locked while a graph is compiled\n");
      std::_Exit(1);
    }
    EXPECT_TRUE(other.get());
  };
  EXPECT_TRUE(get(slow).executable);
  EXPECT_TRUE(looked_up);
  slow->while_compiling = nullptr;
  [known release];
  [slow release];
}

TEST_F(MPSExecutableCacheTest, OneOfTheThreadsCompiles) {
  auto* graph = newGraph();
  std::atomic<int> compiled{0};
  graph->while_compiling = [&] {
    compiled++;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  get(graph, 8); // makes the placeholders
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; i++) {
    threads.emplace_back([&] { EXPECT_TRUE(get(graph).executable); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(compiled, 2);
  const auto stats = executableCacheStats();
  EXPECT_EQ(stats.misses, 2);
  EXPECT_EQ(stats.hits, 5);
  graph->while_compiling = nullptr;
  [graph release];
}

TEST_F(MPSExecutableCacheTest, FailureToCompileIsTold) {
  auto* graph = newGraph();
  graph->fails = true;
  const auto run = get(graph);
  EXPECT_FALSE(run.executable);
  EXPECT_EQ(run.problem, "an MPSGraph could not be compiled to an executable");
  // nothing waits for it any more
  graph->fails = false;
  EXPECT_TRUE(get(graph).executable);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, OtherOrderOfTensorsIsFollowed) {
  auto* graph = newGraph();
  graph->change_feeds = [](NSArray* feeds) { return feeds.reverseObjectEnumerator.allObjects; };
  size_t inputs = 0;
  EXPECT_TRUE(get(graph, 4, &inputs).executable);
  EXPECT_EQ(inputs, 2);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, UnexpectedTensorsAreTold) {
  const std::vector<std::pair<std::function<NSArray*(NSArray*)>, std::string>> changes = {
      {[](NSArray*) -> NSArray* { return nil; }, "0"},
      {[](NSArray* tensors) -> NSArray* { return [tensors subarrayWithRange:NSMakeRange(1, tensors.count - 1)]; },
       "fewer"},
      {[](NSArray* tensors) -> NSArray* { return [tensors arrayByAddingObject:tensors[0]]; }, "more"},
      {[](NSArray* tensors) -> NSArray* {
         MPSGraph* other = [[MPSGraph new] autorelease];
         MPSGraphTensor* stranger = [other placeholderWithShape:@[ @1 ] dataType:MPSDataTypeFloat32 name:nil];
         return [[tensors subarrayWithRange:NSMakeRange(1, tensors.count - 1)] arrayByAddingObject:stranger];
       },
       "other"},
  };
  for (const auto& [change, name] : changes) {
    for (const bool feeds : {true, false}) {
      auto* graph = newGraph();
      (feeds ? graph->change_feeds : graph->change_targets) = change;
      const auto run = get(graph);
      EXPECT_FALSE(run.executable) << name << feeds;
      EXPECT_NE(run.problem.find("has other feeds and results"), std::string::npos) << name << feeds << run.problem;
      EXPECT_FALSE(run.inputs && run.results) << name << feeds;
      [graph release];
    }
  }
}
