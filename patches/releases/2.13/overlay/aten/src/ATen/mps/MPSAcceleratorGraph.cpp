// torch.accelerator.Graph on MPS: MPSCommandGraph under the names that all
// accelerators share.

#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/ivalue.h>
#include <ATen/mps/MPSCommandGraph.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>

#include <fstream>
#include <sstream>
#include <string>

namespace at::mps {

namespace {

// Text in a label of the DOT language.
std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
    }
    result += c;
  }
  return result;
}

std::string labelOf(const c10::impl::GenericDict& step, size_t position) {
  std::ostringstream label;
  label << position << ": " << step.at("kind").toStringRef();
  const auto& op = step.at("op").toStringRef();
  if (!op.empty()) {
    label << ' ' << quoted(op);
  }
  for (const auto& entry : step) {
    const auto& name = entry.key().toStringRef();
    if (entry.value().isList() && name != "buffers") {
      const auto values = entry.value().toListRef();
      label << "\\n" << name << "=[";
      for (const auto i : c10::irange(values.size())) {
        label << (i == 0 ? "" : ", ");
        values[i].isString() ? label << values[i].toStringRef() : label << values[i].toInt();
      }
      label << ']';
    }
  }
  return label.str();
}

void writeDot(const c10::impl::GenericDict& dump, std::ostream& out) {
  out << "digraph mps_graph {\n";
  const auto buffers = dump.at("buffers").toListRef();
  for (const auto i : c10::irange(buffers.size())) {
    const auto buffer = buffers[i].toGenericDict();
    out << "  b" << i << " [shape=ellipse, label=\"buffer " << i << "\\n"
        << buffer.at("bytes").toInt() << " bytes, "
        << buffer.at("memory").toStringRef() << "\"];\n";
  }
  const auto steps = dump.at("steps").toListRef();
  for (const auto i : c10::irange(steps.size())) {
    const auto step = steps[i].toGenericDict();
    out << "  s" << i << " [shape=box, label=\"" << labelOf(step, i)
        << "\"];\n";
    if (i > 0) {
      out << "  s" << i - 1 << " -> s" << i << ";\n";
    }
    for (const auto& entry : step.at("buffers").toListRef()) {
      const auto use = entry.toGenericDict();
      const auto buffer = "b" + std::to_string(use.at("buffer").toInt());
      const auto run = "s" + std::to_string(i);
      const auto& access = use.at("access").toStringRef();
      const bool writes = access == "write";
      out << "  " << (writes ? run : buffer) << " -> "
          << (writes ? buffer : run) << " ["
          << (access == "bind" ? "dir=none, " : "")
          << "style=dashed, label=\"" << use.at("offset").toInt() << "\"];\n";
    }
  }
  out << "}\n";
}

struct MPSAcceleratorGraph final : public GraphImplInterface {
  explicit MPSAcceleratorGraph(const GraphImplArgs& args = {})
      : keep_graph_(args.keep_graph),
        debug_mode_(args.keep_graph),
        graph_(args.keep_graph) {}

  void capture_begin(MempoolId_t pool, GraphCaptureMode /*mode*/) override {
    // the caller's way to say that there is none
    const bool has_pool = pool.first != 0 || pool.second != 0;
    // The modes differ in what other threads may do, and none of them can
    // disturb a capture.
    graph_.captureBegin(
        has_pool ? std::make_optional(MPSCommandGraphPool{pool.first, pool.second})
                 : std::nullopt);
  }

  void capture_end() override {
    graph_.captureEnd();
  }

  void instantiate() override {
    TORCH_CHECK(
        keep_graph_,
        "torch.accelerator.Graph: instantiate() is for graphs that were made with keep_graph=True; this one was "
        "instantiated when its capture ended.");
    graph_.instantiate();
  }

  void replay() override {
    graph_.replay();
  }

  void reset() override {
    graph_.reset();
  }

  MempoolId_t pool() const override {
    const auto [first, second] = graph_.pool();
    return {first, second};
  }

  void enable_debug_mode() override {
    debug_mode_ = true;
  }

  void debug_dump(const std::string& path) override {
    TORCH_CHECK(
        debug_mode_,
        "torch.accelerator.Graph: call enable_debug_mode() before debug_dump(), or make the graph with "
        "keep_graph=True.");
    std::ofstream file(path);
    writeDot(graph_.dump(), file);
    file.close();
    TORCH_CHECK(
        file, "torch.accelerator.Graph: debug_dump() could not write ", path);
  }

 private:
  const bool keep_graph_;
  bool debug_mode_;
  MPSCommandGraph graph_;
};

} // namespace

REGISTER_GRAPH_IMPL(MPS, MPSAcceleratorGraph)

} // namespace at::mps
