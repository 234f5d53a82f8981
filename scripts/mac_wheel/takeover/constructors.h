#pragma once

namespace torch_mps_graph {

/// torch.Generator(device="mps") and torch.UntypedStorage(..., device="mps") do
/// not ask the hooks (torch/csrc/{Generator,Storage}.cpp): they make objects of
/// the official backend, or refuse where there is none. This puts constructors
/// in front of them that make this backend's. The simulator uses it, too.
void replaceConstructors();

} // namespace torch_mps_graph
