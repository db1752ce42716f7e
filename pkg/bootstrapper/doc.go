// Package bootstrapper decides what `wmcb initialize-kubelet` and `wmcb configure-cni` do: Initialize and ConfigureCNI turn what was
// gathered on the machine into a part of a plan and into findings, everything that stands in the way at once. Both are pure and
// deterministic; the engine (pkg/agent) merges the parts and carries them out, so that what one command made stays when the other one runs.
//
// The package does not prove that a kubelet starts with what it is given; test/wine does. It imports plan, planner (for its checks, its
// containerd configuration and its findings), kubelet, cni, ignition, a TOML codec and sigs.k8s.io/yaml; no client, no clock, no file, no
// process.
package bootstrapper
