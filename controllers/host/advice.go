package host

import "github.com/windowsmachine/operator/pkg/agent"

// advice is the way out for a code of the agent: one sentence for a person.
func advice(code string) string {
	if a, ok := ways()[code]; ok {
		return a
	}
	return "it is tried again by itself; the journal on the machine is C:\\k\\wmcb\\journal.jsonl"
}

// ways are the codes that have a way out of their own.
func ways() map[string]string {
	const (
		log     = "see the service's log below C:\\var\\log and the System event log on the machine"
		adapter = "check that an adapter of the machine holds the node's address"
		rival   = "another operator or another WindowsHost configures this machine; delete one of them"
	)
	return map[string]string{
		agent.CodeDiskFull:               "free space on the machine's system volume or enlarge it; the step is then tried again by itself",
		agent.CodeFileBusy:               "another program holds a file open; close it or wait",
		agent.CodeAccessDenied:           "check that no policy or antivirus keeps SYSTEM from writing there",
		agent.CodeServiceStartTimeout:    log,
		agent.CodeServiceExited:          log,
		agent.CodeAgentStopped:           "the plan is handed over again, which starts the agent; if that does not help, see the System event log on the machine for service wmcb",
		agent.CodeServiceMarkedForDelete: "close programs that show services (services.msc, Task Manager) on the machine",
		agent.CodeServiceDependency:      "start or repair the service that it depends on",
		agent.CodeNetworkAdapterMissing:  adapter,
		agent.CodeNetworkLost:            adapter,
		agent.CodeGenerationOld:          rival,
		agent.CodeGenerationConflict:     rival,
		agent.CodeOrderOld:               "it is asked again with a newer one; if that does not help, another operator configures this machine, or the clock here is behind what it was when the machine was last configured",
		agent.CodeHostMismatch:           rival,
		agent.CodeRebootRepeated:         "another reboot would not help: see what the feature's installation says in C:\\Windows\\Logs\\DISM\\dism.log on the machine",
		agent.CodePlanTooNew:             "the agent on the machine is older than the operator; it is replaced at the next connection",
	}
}
