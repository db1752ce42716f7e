// Package node is the software of a Windows node as programs of a modelled machine (pkg/agent/system/fake): kube-log-runner,
// containerd, a light kubelet and a light kube-proxy. A program is known by what its file holds (test/payload's markers), wherever it lies and
// whatever its name is.
//
// The programs lean on nothing but what they find on the machine: their arguments, files, the service manager's answers, HNS
// networks, addresses and, for the kubelet, the API server through the machine's own network. So a machine whose node becomes
// Ready had everything that the agent was to put there. The light kubelet is client-go's certificate manager (client and serving
// certificates, rotation), a Node object, a lease and a Ready condition; it answers on its port with its serving
// certificate, and refuses what the real one refuses: unknown flags, unknown fields of its configuration, forbidden labels,
// missing files. The light kube-proxy reads its configuration strictly, waits for its HNS network, and lists Services with the token in its file, which it
// reads again; it makes nothing in HNS.
//
// # What it does not prove
//
// No container runs and no pod is ever started; a pod bound to such a node stays Pending. Nothing shows that the real programs accept
// a value that these accept: feature gates, durations, TOML tables they do not read and plugin configuration beyond name, type and
// ipam are not checked. They are stricter than the real ones in three places, to make a missing file visible without a
// pod: containerd does not start without its shim beside it, a CNI configuration counts only when its plugins' files and
// the HNS network of win-bridge or win-overlay exist, and a kubelet whose --node-ip is not an address of the machine ends instead of
// registering without an address. The real kubelet refuses loopback addresses; simulated machines have nothing else.
package node
