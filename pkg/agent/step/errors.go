package step

import "errors"

// Errors that callers branch on, beside those of package system; steps wrap them with the object.
var (
	// ErrBlobMissing: the plan names a payload blob that the machine does not hold.
	ErrBlobMissing = errors.New("payload blob is not on the machine")
	// ErrBlobCorrupt: a payload blob's bytes do not have its digest; the blob has been deleted.
	ErrBlobCorrupt = errors.New("payload blob is corrupt")
	// ErrSecretMissing: a secret file is absent and its content did not come with the plan.
	ErrSecretMissing = errors.New("secret was not handed over")
	// ErrForeign: something of that name exists that the agent did not make and may not replace.
	ErrForeign = errors.New("exists and was not made by the agent")
	// ErrServiceStart: a service did not come to run in time.
	ErrServiceStart = errors.New("service did not start in time")
	// ErrServiceStop: a service did not stop in time.
	ErrServiceStop = errors.New("service did not stop in time")
	// ErrServiceExited: a service stopped right after it was started.
	ErrServiceExited = errors.New("service ended after its start")
	// ErrNetworkLost: the management address did not come back, or the API server was not reached, after a network was
	// made.
	ErrNetworkLost = errors.New("network connection was lost")
	// ErrNetworkStuck: a network that was deleted is still there.
	ErrNetworkStuck = errors.New("network was not deleted in time")
)
