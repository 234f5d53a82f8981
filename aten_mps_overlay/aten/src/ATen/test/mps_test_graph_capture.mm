// first: OperationUtils.h forbids what it includes
#include <torch/torch.h>

#include <ATen/ThreadLocalState.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <ATen/mps/MPSCommandGraphCapture.h>
#include <ATen/mps/MPSCommandGraphRecording.h>
#include <ATen/mps/MPSStream.h>
#include <ATen/native/mps/MetalShaderLibrary.h>
#include <ATen/native/mps/OperationUtils.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace at::mps;
using at::native::mps::dispatch_sync_with_rethrow;
using at::native::mps::DynamicMetalShaderLibrary;
using at::native::mps::Placeholder;

static const auto kOnDevice = at::device(at::kMPS);
static constexpr int64_t kLength = 4096;

/// Doubles a tensor by an MPSGraph, without an operator of PyTorch's.
class Doubling {
 public:
  Doubling() : graph_([MPSGraph new]) {
    @autoreleasepool {
      input_ = [graph_ placeholderWithShape:@[ @(kLength) ] dataType:MPSDataTypeFloat32 name:nil];
      output_ = [graph_ additionWithPrimaryTensor:input_ secondaryTensor:input_ name:nil];
    }
  }
  ~Doubling() {
    [graph_ release];
  }

  void run(const at::Tensor& from, const at::Tensor& to) {
    @autoreleasepool {
      auto input = Placeholder(input_, from);
      auto output = Placeholder(output_, to);
      at::native::mps::runMPSGraph(
          getCurrentMPSStream(), graph_, at::native::mps::dictionaryFromPlaceholders(input), output);
    }
  }

 private:
  MPSGraph* graph_;
  MPSGraphTensor* input_;
  MPSGraphTensor* output_;
};

static at::Tensor full(float value) {
  return torch::full({kLength}, value, kOnDevice);
}

static void expectFilledWith(const at::Tensor& tensor, float value) {
  EXPECT_TRUE(torch::equal(tensor.cpu(), torch::full({kLength}, value))) << tensor.cpu()[0] << " is not " << value;
}

static void expectRaised(const std::function<void()>& action, const std::string& words) {
  try {
    action();
    ADD_FAILURE() << "nothing was raised";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

static void inThread(const std::function<void()>& work) {
  std::thread(work).join();
}

class MPSGraphCaptureTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(torch::mps::is_available());
  }

  MPSCommandGraph graph;
};

// A destructor warns of what goes wrong in it.
struct NoWarnings final : c10::WarningHandler {
  void process(const c10::Warning& warning) override {
    ADD_FAILURE() << warning.msg();
  }
};

// Python may collect a graph as garbage in a block of the queue.
TEST_F(MPSGraphCaptureTest, DestroyedOnTheQueue) {
  auto captured = std::make_unique<MPSCommandGraph>();
  captured->captureBegin();
  // a number that the operator puts into a buffer
  auto y = full(1).add(full(2), 3);
  captured->captureEnd();
  auto underway = std::make_unique<MPSCommandGraph>();
  underway->captureBegin();
  y = full(1).add(full(2), 3);
  NoWarnings no_warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&no_warnings);
  for (auto* graph : {captured.release(), underway.release()}) {
    dispatch_sync(getCurrentMPSStream()->queue(), ^() {
      delete graph;
    });
  }
  EXPECT_FALSE(isCaptureUnderway());
  expectFilledWith(y, 7);
}

// A profiler's range may end out of turn, or on another thread.
TEST_F(MPSGraphCaptureTest, RangeIsNoOperator) {
  graph.captureBegin();
  {
    RECORD_FUNCTION("aten::range", {});
    EXPECT_EQ(MPSSubmission::current().outermost_operator, nullptr);
  }
  graph.captureEnd();
}

// The operator binds tensors that it is not given.
static std::function<void()> hidden_work;
TORCH_LIBRARY(mps_graph_capture_test, library) {
  library.def("hidden(Tensor given) -> ()", [](const at::Tensor&) { hidden_work(); });
}

static void runInAnOperator(std::function<void()> work) {
  hidden_work = std::move(work);
  static const auto hidden = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("mps_graph_capture_test::hidden", "")
                                 .typed<void(const at::Tensor&)>();
  hidden.call(at::Tensor());
}

TEST_F(MPSGraphCaptureTest, GraphRunKeepsItsMemory) {
  for (const bool is_in_operator : {false, true}) {
    Doubling doubling;
    auto x = full(1);
    auto between = full(0);
    auto y = full(0);
    const auto run = [&] {
      doubling.run(x, between);
      doubling.run(between, y);
    };
    graph.captureBegin();
    is_in_operator ? runInAnOperator(run) : run();
    graph.captureEnd();
    x.fill_(3);
    x.reset();
    between.reset();
    // would lie where those were
    std::vector<at::Tensor> others;
    for (int i = 0; i < 20; i++) {
      others.push_back(full(100));
    }
    y.fill_(0);
    graph.replay();
    expectFilledWith(y, 12);
    for (const auto& other : others) {
      expectFilledWith(other, 100);
    }
    graph.reset();
  }
}

TEST_F(MPSGraphCaptureTest, GraphRunOutsideOfOperatorsWatchesItsTensors) {
  Doubling doubling;
  auto x = full(1);
  auto y = full(0);
  graph.captureBegin();
  doubling.run(x, y);
  graph.captureEnd();
  x.set_data(full(3));
  expectRaised([&] { graph.replay(); }, "another storage");
}

TEST_F(MPSGraphCaptureTest, GoneInputOfAGraphRunOutsideOfOperators) {
  Doubling doubling;
  auto x = full(1);
  auto y = full(0);
  graph.captureBegin(std::nullopt, /*freeze_host_reads=*/false, /*check_input_liveness=*/true);
  doubling.run(x, y);
  graph.captureEnd();
  graph.replay();
  x.reset();
  expectRaised([&] { graph.replay(); }, "is gone");
}

class MPSGraphCaptureThreadsTest : public MPSGraphCaptureTest {
 protected:
  void SetUp() override {
    MPSGraphCaptureTest::SetUp();
    x = full(1);
  }

  // x += 1 on the queue, which the block reaches in the given way.
  void increment(void (*submit)(dispatch_queue_t, void (^)())) {
    auto* stream = getCurrentMPSStream();
    submit(stream->queue(), ^() {
      @autoreleasepool {
        id<MTLComputeCommandEncoder> encoder = stream->commandEncoder();
        [encoder setComputePipelineState:library->getPipelineStateForFunc("increment")];
        [encoder setBuffer:at::native::mps::getMTLBufferStorage(x) offset:0 atIndex:0];
        [encoder dispatchThreads:MTLSizeMake(kLength, 1, 1) threadsPerThreadgroup:MTLSizeMake(64, 1, 1)];
      }
    });
  }

  static void known(dispatch_queue_t queue, void (^block)()) {
    dispatch_sync_with_rethrow(queue, block);
  }
  static void unknown(dispatch_queue_t queue, void (^block)()) {
    dispatch_sync(queue, block);
  }

  static constexpr const char* kSource = R"MTL(
  kernel void increment(device float* numbers, uint index [[thread_position_in_grid]]) {
    numbers[index] += 1;
  }
  )MTL";
  std::unique_ptr<DynamicMetalShaderLibrary> library = std::make_unique<DynamicMetalShaderLibrary>(kSource);
  at::Tensor x;
};

// Nothing but the commands refers to their pipelines on GPUs of the ninth family, which load them by themselves.
TEST_F(MPSGraphCaptureThreadsTest, PipelinesOfIndirectCommandsInFlight) {
  auto* stream = getCurrentMPSStream();
  if (![stream->device() supportsFamily:static_cast<MTLGPUFamily>(1009)]) {
    GTEST_SKIP() << "other GPUs need a first use of each pipeline";
  }
  setenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS", "1", 1);
  graph.captureBegin();
  for (int i = 0; i < 8; i++) {
    increment(known);
  }
  graph.captureEnd();
  unsetenv("PYTORCH_MPS_GRAPH_INDIRECT_COMMANDS");
  id<MTLSharedEvent> gpu_may_go_on = [[stream->device() newSharedEvent] autorelease];
  dispatch_sync_with_rethrow(stream->queue(), ^() {
    stream->endKernelCoalescing();
    [stream->recordedCommandBuffer() encodeWaitForEvent:gpu_may_go_on value:1];
  });
  graph.replay();
  graph.reset();
  library.reset();
  gpu_may_go_on.signaledValue = 1;
  expectFilledWith(x, 17);
}

TEST_F(MPSGraphCaptureThreadsTest, OwnWork) {
  graph.captureBegin();
  increment(known);
  increment(unknown);
  graph.captureEnd();
  EXPECT_EQ(graph.stats().at("kernels").toInt(), 2);
  graph.replay();
  expectFilledWith(x, 5);
}

// No operator and no tensor says what an encoder binds.
TEST_F(MPSGraphCaptureThreadsTest, MemoryThatAnEncoderBindsIsKept) {
  graph.captureBegin();
  increment(known);
  graph.captureEnd();
  x.reset();
  // would lie where it was
  std::vector<at::Tensor> others;
  for (int i = 0; i < 20; i++) {
    others.push_back(full(100));
  }
  graph.replay();
  for (const auto& other : others) {
    expectFilledWith(other, 100);
  }
}

TEST_F(MPSGraphCaptureThreadsTest, WorkOfAnotherThread) {
  graph.captureBegin();
  increment(known);
  inThread([&] { increment(known); });
  increment(known);
  graph.captureEnd();
  EXPECT_EQ(graph.stats().at("kernels").toInt(), 2);
  graph.replay();
  expectFilledWith(x, 6);
}

TEST_F(MPSGraphCaptureThreadsTest, WorkOfAThreadThatTakesOverTheState) {
  graph.captureBegin();
  inThread([&, state = at::ThreadLocalState()] {
    EXPECT_FALSE(isCurrentStreamCapturing());
    const at::ThreadLocalStateGuard guard(state);
    EXPECT_TRUE(isCurrentStreamCapturing());
    increment(known);
  });
  graph.captureEnd();
  EXPECT_EQ(graph.stats().at("kernels").toInt(), 1);
  graph.replay();
  expectFilledWith(x, 3);
}

TEST_F(MPSGraphCaptureThreadsTest, WorkOfAnotherThreadByDispatchSync) {
  graph.captureBegin();
  increment(known);
  inThread([&] { increment(unknown); });
  increment(unknown);
  graph.captureEnd();
  expectFilledWith(x, 4);
  EXPECT_EQ(graph.stats().at("kernels").toInt(), 2);
  graph.replay();
  expectFilledWith(x, 6);
}

TEST_F(MPSGraphCaptureThreadsTest, NothingIsLeftToAThreadWhoseCaptureEndedElsewhere) {
  graph.captureBegin();
  increment(known);
  inThread([&] { graph.captureEnd(); });
  EXPECT_FALSE(isCurrentStreamCapturing());
  EXPECT_TRUE(at::hasThreadLocalCallbacks());
  increment(known);
  full(1);
  // the observer would cost every operator something
  EXPECT_FALSE(at::hasThreadLocalCallbacks());
  MPSCommandGraph second;
  second.captureBegin();
  increment(known);
  second.captureEnd();
  EXPECT_EQ(graph.stats().at("kernels").toInt(), 1);
  EXPECT_EQ(second.stats().at("kernels").toInt(), 1);
}

TEST_F(MPSGraphCaptureTest, ReplayNamesTheReasonOfAnAbort) {
  graph.captureBegin();
  full(1);
  graph.captureAbort("RuntimeError: a reason.");
  expectRaised([&] { graph.replay(); },
               "this graph is empty. Capture into it first. Its last capture raised RuntimeError: a reason.");
  graph.captureBegin();
  const auto x = full(1);
  graph.captureEnd();
  // too late: the capture is complete
  graph.captureAbort("RuntimeError: another reason.");
  x.fill_(2);
  graph.replay();
  expectFilledWith(x, 1);
}

// RecordFunction logs an exception of an observer and goes on.
TEST_F(MPSGraphCaptureTest, ExceptionInTheObserver) {
  const auto x = full(1);
  const auto capture = [&] {
    graph.captureBegin();
    x.add(1);
    graph.captureEnd();
  };
  setProgramLine([]() -> MPSProgramFrame { throw std::runtime_error("an error of the observer"); },
                 [](const MPSProgramFrame&) { return std::string(); });
  expectRaised(capture, "the capture could not observe aten::add: an error of the observer");
  setProgramLine(nullptr, nullptr);
  // nothing is left of the operator
  inThread([&] { capture(); });
  graph.reset();
  capture();
  EXPECT_GT(graph.stats().at("graph_runs").toInt(), 0);
  EXPECT_EQ(graph.dump().at("steps").toListRef()[0].toGenericDict().at("op"), "aten::add");
}

// Not every argument of a call has a name in the schema.
static void addAll(const c10::OperatorHandle& /*op*/, torch::jit::Stack* stack) {
  const auto arguments = std::exchange(*stack, {});
  stack->emplace_back(arguments[0].toTensor().add(*arguments[1].toTensor().const_data_ptr<float>()));
}

TEST_F(MPSGraphCaptureTest, ArgumentsBeyondTheSchema) {
  torch::Library library(torch::Library::DEF, "mps_test", std::nullopt, __FILE__, __LINE__);
  library.def("add_all(...) -> Tensor", torch::CppFunction::makeFromBoxedFunction<&addAll>());
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("mps_test::add_all", "");
  const auto number = torch::tensor(2.0f);
  graph.captureBegin();
  torch::jit::Stack stack{full(1), number};
  op.callBoxed(&stack);
  graph.captureEnd();
  graph.replay();
  expectFilledWith(stack[0].toTensor(), 3);
  number.fill_(5);
  expectRaised([&] { graph.replay(); }, "mps_test::add_all");
}

static at::Tensor* leaf = nullptr;

TEST_F(MPSGraphCaptureTest, GradientOfALeafThatNoOperatorIsGiven) {
  auto parameter = full(3).requires_grad_();
  leaf = &parameter;
  setGradientTarget([] { return at::TensorBase(*leaf); });
  const auto loss = (parameter + full(1)).sum();
  graph.captureBegin();
  loss.backward({}, /*retain_graph=*/true);
  graph.captureEnd();
  setGradientTarget(nullptr);
  parameter.mutable_grad() = at::Tensor();
  graph.replay();
  ASSERT_TRUE(parameter.grad().defined());
  expectFilledWith(parameter.grad(), 1);
}
