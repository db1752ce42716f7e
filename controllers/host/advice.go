package host

import "github.com/windowsmachine/operator/pkg/agent"

// advice is the way out for a code of the agent: one sentence for a person.
func advice(code string) string {
	switch code {
	case agent.CodeDiskFull:
		return "free space on the machine's system volume or enlarge it; the step is then tried again by itself"
	case agent.CodeFileBusy:
		return "another program holds a file open; close it or wait"
	case agent.CodeAccessDenied:
		return "check that no policy or antivirus keeps SYSTEM from writing there"
	case agent.CodeServiceStartTimeout, agent.CodeServiceExited:
		return "see the service's log below C:\\var\\log and the System event log on the machine"
	case agent.CodeAgentStopped:
		return "the plan is handed over again, which starts the agent; if that does not help, see the System event log on the machine for service wmcb"
	case agent.CodeServiceMarkedForDelete:
		return "close programs that show services (services.msc, Task Manager) on the machine"
	case agent.CodeServiceDependency:
		return "start or repair the service that it depends on"
	case agent.CodeNetworkAdapterMissing, agent.CodeNetworkLost:
		return "check that an adapter of the machine holds the node's address"
	case agent.CodeGenerationOld, agent.CodeGenerationConflict, agent.CodeHostMismatch:
		return "another operator or another WindowsHost configures this machine; delete one of them"
	case agent.CodeRebootRepeated:
		return "another reboot would not help: see what the feature's installation says in C:\\Windows\\Logs\\DISM\\dism.log on the machine"
	case agent.CodePlanTooNew:
		return "the agent on the machine is older than the operator; it is replaced at the next connection"
	}
	return "it is tried again by itself; the journal on the machine is C:\\k\\wmcb\\journal.jsonl"
}
