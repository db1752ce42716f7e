package agent

import (
	"context"
	"errors"

	"github.com/windowsmachine/operator/pkg/agent/disk"
	"github.com/windowsmachine/operator/pkg/agent/step"
	"github.com/windowsmachine/operator/pkg/agent/system"
	"github.com/windowsmachine/operator/pkg/payload"
	"github.com/windowsmachine/operator/pkg/plan"
)

// Codes of journal entries that are no failures.
const (
	// CodeAccepted: the agent has taken up an envelope that `wmcb apply` stored.
	CodeAccepted = "Accepted"
	// CodeRunStarted: a run began; Detail says why.
	CodeRunStarted = "RunStarted"
	// CodeStepStarted: the step is being checked, and applied if it must be.
	CodeStepStarted = "StepStarted"
	// CodeStepInSync: the step had nothing to do.
	CodeStepInSync = "StepInSync"
	// CodeStepApplied: the step changed the machine and is in sync now.
	CodeStepApplied = "StepApplied"
	// CodeStepRemoved: what the step made and the plan no longer wants has been taken back.
	CodeStepRemoved = "StepRemoved"
	// CodeRebootNeeded: the step is in sync after a reboot only; the run ends here and starts again at boot.
	CodeRebootNeeded = "RebootNeeded"
	// CodeRunDone: the machine equals the plan.
	CodeRunDone = "RunDone"
	// CodeSuperseded: the run ended since a newer envelope was stored meanwhile.
	CodeSuperseded = "Superseded"
)

// Codes of failures: of a step in the journal and the report, or of a command that refused.
const (
	// CodeStepFailed: a step failed for a reason that has no code of its own; Detail has the error.
	CodeStepFailed = "StepFailed"
	// CodeStillDrifted: a step applied without an error and its check still finds a difference.
	CodeStillDrifted = "StillDrifted"
	// CodeDiskFull: the system volume has no room for the payload or the agent's own files.
	CodeDiskFull = "DiskFull"
	// CodeFileBusy: a file is open in another process, often a virus scanner; the agent tries again.
	CodeFileBusy = "FileBusy"
	// CodeAccessDenied: Windows refused access although the agent runs as SYSTEM.
	CodeAccessDenied = "AccessDenied"
	// CodeForeignObject: a file, folder or service of a name that the plan needs was made by somebody else.
	CodeForeignObject = "ForeignObject"
	// CodeBlobMissing: the plan names a payload blob that was never received, or was deleted.
	CodeBlobMissing = "BlobMissing"
	// CodeBlobCorrupt: a blob's bytes do not have its digest, on the way or on the disk; it has been deleted.
	CodeBlobCorrupt = "BlobCorrupt"
	// CodeSecretMissing: a secret file is absent and the envelope did not carry its content.
	CodeSecretMissing = "SecretMissing"
	// CodeServiceStartTimeout: a service did not answer its start request (1053) or did not come to run in time.
	CodeServiceStartTimeout = "ServiceStartTimeout"
	// CodeServiceStopTimeout: a service did not stop in time.
	CodeServiceStopTimeout = "ServiceStopTimeout"
	// CodeServiceMarkedForDelete: a deleted service is held open by another program (1072), often services.msc.
	CodeServiceMarkedForDelete = "ServiceMarkedForDelete"
	// CodeServiceDependency: a service that another depends on is missing or failed (1068, 1075, 1051).
	CodeServiceDependency = "ServiceDependency"
	// CodeServiceExited: a service ended right after its start; its own log says why.
	CodeServiceExited = "ServiceExited"
	// CodeServiceMissing: a service vanished while the agent worked on it (1060).
	CodeServiceMissing = "ServiceMissing"
	// CodeNetworkAdapterMissing: no adapter holds the management address, or it is not usable (link-local, tentative).
	CodeNetworkAdapterMissing = "NetworkAdapterMissing"
	// CodeNetworkLost: after a network was made the management address or the API server did not come back.
	CodeNetworkLost = "NetworkLost"
	// CodeNetworkStuck: a network that was deleted is still there.
	CodeNetworkStuck = "NetworkStuck"
	// CodeUnsupported: this edition or build of Windows, or this agent, lacks what the plan asks for.
	CodeUnsupported = "Unsupported"
	// CodePlanInvalid: the envelope or plan is malformed or asks for something that is never allowed.
	CodePlanInvalid = "PlanInvalid"
	// CodePlanTooNew: the plan needs a format version or a capability that this agent does not have.
	CodePlanTooNew = "PlanTooNew"
	// CodeGenerationOld: a newer plan was accepted before.
	CodeGenerationOld = "GenerationOld"
	// CodeOrderOld: a later request of the same host was carried out before.
	CodeOrderOld = "OrderOld"
	// CodeGenerationConflict: another plan of the same generation was accepted before.
	CodeGenerationConflict = "GenerationConflict"
	// CodeHostMismatch: the machine holds the plan of another host object, and the envelope does not adopt it.
	CodeHostMismatch = "HostMismatch"
	// CodeBusy: another wmcb holds the lock.
	CodeBusy = "Busy"
	// CodeTooLarge: an input is over its limit.
	CodeTooLarge = "TooLarge"
	// CodeTransferInvalid: the stream of `wmcb receive` is malformed or was cut; what arrived whole is kept.
	CodeTransferInvalid = "TransferInvalid"
	// CodeStateInvalid: the agent's own plan.json or state.json cannot be read.
	CodeStateInvalid = "StateInvalid"
	// CodeRebootRepeated: the step still asks for a reboot after one; another one is not asked for.
	CodeRebootRepeated = "RebootRepeated"
	// CodeAgentStopped: the agent's own service is not there or does not run, so that nobody carries the plan out.
	CodeAgentStopped = "AgentStopped"
	// CodeStopped: the agent or the command was told to stop.
	CodeStopped = "Stopped"
)

// Errors of the agent that callers branch on.
var (
	// ErrPlanInvalid: the plan does not pass plan.Validate, or the envelope is malformed.
	ErrPlanInvalid = errors.New("plan is invalid")
	// ErrGenerationOld: the envelope's generation is lower than the accepted one.
	ErrGenerationOld = errors.New("a newer plan was accepted before")
	// ErrOrderOld: the request's order is lower than that of one of the same host that came before.
	ErrOrderOld = errors.New("a later request was carried out before")
	// ErrGenerationConflict: the same generation with another plan.
	ErrGenerationConflict = errors.New("another plan of the same generation was accepted before")
	// ErrHostMismatch: the accepted plan is that of another host.
	ErrHostMismatch = errors.New("machine belongs to another host object")
	// ErrBusy: another wmcb holds the lock.
	ErrBusy = errors.New("another wmcb is at work")
	// ErrStateInvalid: the agent's own files cannot be read.
	ErrStateInvalid = errors.New("the agent's state cannot be read")
	// ErrStillDrifted: a step did not bring its part of the machine into sync.
	ErrStillDrifted = errors.New("still not in sync after it was applied")
	// ErrRebootRepeated: a step asks for a reboot and the machine was rebooted for it already.
	ErrRebootRepeated = errors.New("the step still asks for a reboot after one")
	// ErrAgentStopped: the agent's service is not there or does not run.
	ErrAgentStopped = errors.New("the agent does not run")
	// ErrSuperseded: a newer envelope was stored.
	ErrSuperseded = errors.New("superseded by a newer plan")
)

// CodeOf returns the code of an error, CodeStepFailed when it has none of its own, and "" for nil.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	for _, m := range codeTable() {
		if errors.Is(err, m.err) {
			return m.code
		}
	}
	return CodeStepFailed
}

type codeOf struct {
	err  error
	code string
}

// codeTable is in order of precedence: an error may wrap several sentinels, and the cause stands before its effect.
func codeTable() []codeOf {
	return []codeOf{
		{context.Canceled, CodeStopped},
		{ErrBusy, CodeBusy},
		{plan.ErrTooNew, CodePlanTooNew},
		{ErrPlanInvalid, CodePlanInvalid},
		{plan.ErrInvalid, CodePlanInvalid},
		{plan.ErrMalformed, CodePlanInvalid},
		{plan.ErrTooLarge, CodeTooLarge},
		{ErrGenerationOld, CodeGenerationOld},
		{ErrOrderOld, CodeOrderOld},
		{ErrGenerationConflict, CodeGenerationConflict},
		{ErrHostMismatch, CodeHostMismatch},
		{ErrStateInvalid, CodeStateInvalid},
		{ErrSuperseded, CodeSuperseded},
		{ErrAgentStopped, CodeAgentStopped},
		{system.ErrDiskFull, CodeDiskFull},
		{step.ErrBlobMissing, CodeBlobMissing},
		{step.ErrBlobCorrupt, CodeBlobCorrupt},
		{payload.ErrDigest, CodeBlobCorrupt},
		{disk.ErrDigest, CodeBlobCorrupt},
		{step.ErrSecretMissing, CodeSecretMissing},
		{step.ErrForeign, CodeForeignObject},
		{step.ErrNetworkLost, CodeNetworkLost},
		{step.ErrNetworkStuck, CodeNetworkStuck},
		{system.ErrNetworkExists, CodeNetworkStuck},
		{system.ErrAdapterNotFound, CodeNetworkAdapterMissing},
		{system.ErrServiceMarked, CodeServiceMarkedForDelete},
		{system.ErrServiceDependency, CodeServiceDependency},
		{system.ErrDependentsRunning, CodeServiceDependency},
		{step.ErrServiceExited, CodeServiceExited},
		{system.ErrServiceTimeout, CodeServiceStartTimeout},
		{step.ErrServiceStart, CodeServiceStartTimeout},
		{step.ErrServiceStop, CodeServiceStopTimeout},
		{system.ErrServiceNotFound, CodeServiceMissing},
		{ErrStillDrifted, CodeStillDrifted},
		{ErrRebootRepeated, CodeRebootRepeated},
		{payload.ErrLimit, CodeTooLarge},
		{disk.ErrTooLarge, CodeTooLarge},
		{payload.ErrFormat, CodeTransferInvalid},
		{payload.ErrVersion, CodeTransferInvalid},
		{payload.ErrSize, CodeTransferInvalid},
		{payload.ErrMessage, CodeTransferInvalid},
		{errCut, CodeTransferInvalid},
		{system.ErrUnsupported, CodeUnsupported},
		{system.ErrBusy, CodeFileBusy},
		{system.ErrDenied, CodeAccessDenied},
	}
}

// progress reports whether code belongs to an entry that is no failure.
func progress(code string) bool {
	switch code {
	case CodeAccepted, CodeRunStarted, CodeStepStarted, CodeStepInSync, CodeStepApplied, CodeStepRemoved, CodeRebootNeeded,
		CodeRunDone, CodeSuperseded:
		return true
	}
	return false
}
