package plan

// Folders on the machine. Everything the product writes lies below one of Roots.
const (
	// InstallDir holds binaries and configuration.
	InstallDir = `C:\k`
	// AgentRoot is the agent's own state: plan.json, journal.jsonl, state.json, blobs, lock. The agent itself resets its owner and
	// access control list at every start, since folders made at the root of C: inherit write access for all users.
	AgentRoot = `C:\k\wmcb`
	// AgentBin is where the operator puts wmcb.exe, in a folder named by its digest. It lies below C:\Windows because a folder
	// made there inherits write access for administrators only: between the upload and the first start no other
	// account can swap the file.
	AgentBin = `C:\Windows\wmcb`
	// LogDir is where `kubectl get --raw …/proxy/logs` finds logs.
	LogDir = `C:\var\log`
)

// AgentName is the file name of the agent, AgentService its service.
const (
	AgentName    = "wmcb.exe"
	AgentService = "wmcb"
)

// AgentPath returns the path of the agent whose SHA-256 is digest (64 hexadecimal digits).
func AgentPath(digest string) string { return AgentBin + `\` + digest[:16] + `\` + AgentName }

// Roots returns the folders below which a plan may place files.
func Roots() []string {
	return []string{InstallDir, LogDir, `C:\var\lib`, `C:\etc`, `C:\ProgramData\containerd`, `C:\Program Files\containerd`}
}
