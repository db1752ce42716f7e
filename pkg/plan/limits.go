package plan

// Limits on everything that crosses between control plane and machine, in bytes unless said otherwise.
const (
	// MaxEnvelope bounds an Envelope, MaxPlan a Plan.
	MaxEnvelope = 4 << 20
	MaxPlan     = 3 << 20
	// MaxInline bounds File.Inline.
	MaxInline = 256 << 10
	// MaxReport bounds a Report or HostFacts line.
	MaxReport = 1 << 20
	// MaxLine bounds a journal line.
	MaxLine = 16 << 10
	// MaxDetail bounds the free text in reports and journal entries.
	MaxDetail = 512
	// MaxSecret bounds one secret file.
	MaxSecret = 64 << 10
	// MaxItems bounds each list of a plan, in items, but for those of which there is one for each node of the cluster: MaxPeers bounds
	// routes and remote subnets. Kubernetes itself is made for 5,000 nodes (kubernetes.io: considerations for large clusters).
	MaxItems = 1024
	MaxPeers = 5000
)
