package plan

// Survey is what else a machine says of itself that can stand in the way of becoming a node. No plan depends on it. What could not be found
// out, and what an older agent does not look at, is zero.
type Survey struct {
	// InstallationType as Windows' registry has it: "Server", "Server Core", "Nano Server", "Client".
	InstallationType string `json:"installationType,omitempty"`
	// NoVFP: the switch extension that carries out the policies of container networks (service vfpext) is not installed. It comes with
	// the feature Containers, so it says something only where that is on.
	NoVFP bool `json:"noVFP,omitempty"`
	// Teams are the network adapters that stand for a team of others (LBFO).
	Teams []string `json:"teams,omitempty"`
	// DynamicPorts are the ranges out of which Windows takes the port of a connection to elsewhere.
	DynamicPorts []PortRange `json:"dynamicPorts,omitempty"`
	// RestartPending holds why Windows waits for a restart, words out of Restart*.
	RestartPending []string `json:"restartPending,omitempty"`
	// NextHostname is the host name after the next restart, "" when it stays what it is.
	NextHostname string `json:"nextHostname,omitempty"`
	// BusyPorts are those TCP ports of NodePorts on which something listens that the agent did not install.
	BusyPorts []int `json:"busyPorts,omitempty"`
	// Services of other makers that run containers, make networks for them or hold a name that plans use.
	Services []ServiceProgram `json:"services,omitempty"`
}

// PortRange is Count ports from First.
type PortRange struct {
	// Protocol is "TCP" or "UDP".
	Protocol string `json:"protocol"`
	First    int    `json:"first"`
	Count    int    `json:"count"`
}

// ServiceProgram is a service and the file that it runs.
type ServiceProgram struct {
	Name string `json:"name"`
	Exe  string `json:"exe,omitempty"`
}

// Why Windows waits for a restart.
const (
	// RestartServicing: a feature or an update was installed or removed (key RebootPending of Component Based Servicing).
	RestartServicing = "Servicing"
	// RestartUpdate: Windows Update waits (key RebootRequired of Auto Update).
	RestartUpdate = "WindowsUpdate"
)

// Ports on which a node's own programs listen.
const (
	PortKubelet       = 10250
	PortKubeletHealth = 10248
	PortProxyMetrics  = 10249
	PortProxyHealth   = 10256
)

// NodePorts are all of them, in order.
func NodePorts() []int {
	return []int{PortKubeletHealth, PortProxyMetrics, PortKubelet, PortProxyHealth}
}
