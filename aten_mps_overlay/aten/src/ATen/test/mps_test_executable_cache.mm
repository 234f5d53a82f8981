#include <ATen/mps/MPSDevice.h>
#include <ATen/mps/MPSExecutableCache.h>
#include <ATen/mps/MPSStream.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

using namespace at::mps;

static std::atomic<int> executables_alive{0};

/// Says of its tensors what it is told to.
@interface MPSTestExecutable : NSObject
@property(nonatomic, retain) NSArray<MPSGraphTensor*>* feedTensors;
@property(nonatomic, retain) NSArray<MPSGraphTensor*>* targetTensors;
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
  if (fails) {
    return nil;
  }
  MPSTestExecutable* executable = [[MPSTestExecutable new] autorelease];
  executable.feedTensors = change_feeds ? change_feeds(feeds.allKeys) : feeds.allKeys;
  executable.targetTensors = change_targets ? change_targets(targetTensors) : targetTensors;
  return (MPSGraphExecutable*)executable;
}
@end

// Of all keys together.
static int64_t count(const char* name) {
  int64_t total = 0;
  for (const auto& counts : describeExecutableCache().at("counts").toGenericDict()) {
    total += counts.value().toGenericDict().at(name).toInt();
  }
  return total;
}

static std::string newestKey() {
  return describeExecutableCache().at("entries").toListRef()[0].toGenericDict().at("key").toStringRef();
}

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

  struct Run {
    bool has_executable;
    std::string problem;
    // the positions of the feeds in the order of the executable
    std::vector<size_t> inputs;
  };

  /// Asks for the executable of a graph with two inputs and a result, of this length.
  static Run get(MPSTestGraph* graph, NSUInteger length = 4, MPSDataType type = MPSDataTypeFloat32) {
    Run result;
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
      const auto run = MPSExecutableCache::getInstance().get(graph,
                                                             @{placeholders[0] : data[0], placeholders[1] : data[1]},
                                                             @{placeholders[1] : data[2]},
                                                             device,
                                                             getCurrentMPSStream()->compilationDescriptor());
      result.has_executable = run.step.executable.get() != nil;
      result.problem = run.problem ? run.problem : "";
      for (MPSGraphTensorData* input in run.step.inputs.get()) {
        result.inputs.push_back(input == data[0] ? 0 : 1);
      }
    }
    return result;
  }
};

TEST_F(MPSExecutableCacheTest, EvictedExecutablesAreFreed) {
  setExecutableCacheLimit(2);
  std::vector<MPSTestGraph*> graphs;
  for (int i = 0; i < 20; i++) {
    graphs.push_back(newGraph());
    EXPECT_TRUE(get(graphs.back()).has_executable);
    EXPECT_LE(executables_alive, 2);
  }
  EXPECT_EQ(count("evictions"), 18);
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
      EXPECT_TRUE(get(graph, length, type).has_executable);
    }
  }
  EXPECT_EQ(count("misses"), 4);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, ForgottenGraphsAreFreed) {
  auto* graph = newGraph();
  MPSExecutableCache::getInstance().noteKey(graph, "known");
  EXPECT_TRUE(get(graph).has_executable);
  EXPECT_EQ(newestKey(), "known");
  MPSExecutableCache::getInstance().forgetGraphs();
  EXPECT_EQ(executables_alive, 0);
  EXPECT_EQ(count("entries"), 0);
  EXPECT_EQ(count("misses"), 1);
  // another graph may lie where it was
  EXPECT_TRUE(get(graph).has_executable);
  EXPECT_EQ(newestKey(), "");
  [graph release];
}

TEST_F(MPSExecutableCacheTest, FailureToCompileIsTold) {
  auto* graph = newGraph();
  graph->fails = true;
  const auto run = get(graph);
  EXPECT_FALSE(run.has_executable);
  EXPECT_EQ(run.problem, "an MPSGraph could not be compiled to an executable");
  graph->fails = false;
  EXPECT_TRUE(get(graph).has_executable);
  [graph release];
}

TEST_F(MPSExecutableCacheTest, OrderOfTheExecutableIsFollowed) {
  for (const bool reversed : {false, true}) {
    MPSTestGraph* graph = newGraph();
    graph->change_feeds = [=](NSArray*) {
      NSArray* placeholders = graph.placeholderTensors;
      return reversed ? placeholders.reverseObjectEnumerator.allObjects : placeholders;
    };
    // The second run finds the executable and has data of its own.
    for (int i = 0; i < 2; i++) {
      EXPECT_EQ(get(graph).inputs, (std::vector<size_t>{reversed ? 1u : 0u, reversed ? 0u : 1u}));
    }
    graph->change_feeds = nullptr;
    [graph release];
  }
  EXPECT_EQ(count("hits"), 2);
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
      EXPECT_FALSE(run.has_executable) << name << feeds;
      EXPECT_NE(run.problem.find("has other feeds and results"), std::string::npos) << name << feeds << run.problem;
      [graph release];
    }
  }
  auto* graph = newGraph();
  graph->change_feeds = [](NSArray* feeds) -> NSArray* { return @[ feeds[0], feeds[0] ]; };
  EXPECT_FALSE(get(graph).has_executable);
  [graph release];
}
