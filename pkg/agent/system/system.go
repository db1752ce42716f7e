package system

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"time"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Errors that callers branch on; implementations wrap them. The number behind each is the Win32 error.
var (
	// ErrNotExist is fs.ErrNotExist (2 ERROR_FILE_NOT_FOUND, 3 ERROR_PATH_NOT_FOUND).
	ErrNotExist = fs.ErrNotExist
	// ErrExist is fs.ErrExist (80, 183).
	ErrExist = fs.ErrExist
	// ErrDenied is fs.ErrPermission (5 ERROR_ACCESS_DENIED).
	ErrDenied = fs.ErrPermission
	// ErrBusy: the file is open or runs (32 ERROR_SHARING_VIOLATION), or a lock is held.
	ErrBusy = errors.New("in use by another process")
	// ErrDiskFull: 112 ERROR_DISK_FULL, 39 ERROR_HANDLE_DISK_FULL.
	ErrDiskFull = errors.New("disk full")
	// ErrServiceNotFound: 1060 ERROR_SERVICE_DOES_NOT_EXIST.
	ErrServiceNotFound = errors.New("service does not exist")
	// ErrServiceMarked: 1072 ERROR_SERVICE_MARKED_FOR_DELETE.
	ErrServiceMarked = errors.New("service is marked for deletion")
	// ErrServiceTimeout: 1053 ERROR_SERVICE_REQUEST_TIMEOUT, the service did not answer the start request.
	ErrServiceTimeout = errors.New("service did not respond to the start request in time")
	// ErrServiceRunning: 1056 ERROR_SERVICE_ALREADY_RUNNING.
	ErrServiceRunning = errors.New("service already runs")
	// ErrServiceNotActive: 1062 ERROR_SERVICE_NOT_ACTIVE.
	ErrServiceNotActive = errors.New("service does not run")
	// ErrServiceDependency: 1068 ERROR_SERVICE_DEPENDENCY_FAIL, 1075 ERROR_SERVICE_DEPENDENCY_DELETED.
	ErrServiceDependency = errors.New("a service it depends on is missing or failed to start")
	// ErrDependentsRunning: 1051 ERROR_DEPENDENT_SERVICES_RUNNING.
	ErrDependentsRunning = errors.New("services that depend on it run")
	// ErrNetworkNotFound: HCN_E_NETWORK_NOT_FOUND 0x803b0001.
	ErrNetworkNotFound = errors.New("network does not exist")
	// ErrNetworkExists: HCN_E_NETWORK_ALREADY_EXISTS 0x803b0010.
	ErrNetworkExists = errors.New("network already exists")
	// ErrEndpointNotFound: HCN_E_ENDPOINT_NOT_FOUND 0x803b0002.
	ErrEndpointNotFound = errors.New("endpoint does not exist")
	// ErrAdapterNotFound: HCN_E_ADAPTER_NOT_FOUND 0x803b0006, or no adapter holds the address.
	ErrAdapterNotFound = errors.New("no network adapter holds the address")
	// ErrUnsupported: this edition or build of Windows lacks what is asked for.
	ErrUnsupported = errors.New("not supported by this version of Windows")
)

// System is one machine.
type System struct {
	Files        Files
	Env          Environment
	Features     Features
	Services     Services
	Networks     Networks
	Routes       Routes
	Firewall     Firewall
	Certificates Certificates
	Defender     Defender
	Machine      Machine
	Programs     Programs
	Clock        Clock
}

// Clock is the machine's time; tests inject it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d or until ctx ends, whose error it returns.
	Sleep(ctx context.Context, d time.Duration) error
}

// Info describes a file or folder.
type Info struct {
	// Path is the name as stored, case kept.
	Path string
	Size int64
	Dir  bool
	// Access is the class that the access control list equals, "" when it equals none.
	Access plan.Access
}

// NewFile is a file being written.
type NewFile interface {
	io.Writer
	// Sync flushes to the disk.
	Sync() error
	// Close ends writing; a file that was not closed is not there.
	Close() error
}

// Files is the file system.
type Files interface {
	Stat(path string) (Info, error)
	Open(path string) (io.ReadCloser, error)
	// Create makes or truncates path with the access class; its folder must exist.
	Create(path string, access plan.Access) (NewFile, error)
	// Append opens path for appending, creating it with the access class.
	Append(path string, access plan.Access) (NewFile, error)
	// Rename moves a file in one step and replaces the target. ErrBusy when the target is a running executable or is
	// open without delete sharing; a running executable itself may be renamed away.
	Rename(from, to string) error
	Remove(path string) error
	// Mkdir makes one folder with the access class; ErrExist when it is there, ErrNotExist when its parent is not.
	Mkdir(path string, access plan.Access) error
	// SetAccess resets owner (Administrators) and access control list of a file or folder to the class.
	SetAccess(path string, access plan.Access) error
	// ReadDir lists the names in a folder, sorted.
	ReadDir(path string) ([]Info, error)
	// Lock takes an exclusive lock file; ErrBusy when another process holds it. A lock ends with its process.
	Lock(path string) (release func() error, err error)
}

// Environment is the machine-wide environment.
type Environment interface {
	Get(name string) (value string, ok bool, err error)
	Set(name, value string) error
	Unset(name string) error
}

// Features are Windows optional features.
type Features interface {
	// Enabled reports whether the feature is enabled now; pending is true when it will be after a reboot.
	Enabled(name string) (enabled, pending bool, err error)
	// Enable turns it on; reboot is true when that takes a reboot.
	Enable(ctx context.Context, name string) (reboot bool, err error)
}

// ServiceState is SERVICE_STATUS.dwCurrentState.
type ServiceState uint32

// The states with Windows' numbers.
const (
	ServiceStopped         ServiceState = 1
	ServiceStartPending    ServiceState = 2
	ServiceStopPending     ServiceState = 3
	ServiceRunning         ServiceState = 4
	ServiceContinuePending ServiceState = 5
	ServicePausePending    ServiceState = 6
	ServicePaused          ServiceState = 7
)

// ServiceConfig is a service as the service manager keeps it. All services start automatically and run as LocalSystem.
type ServiceConfig struct {
	Name, DisplayName, Description string
	Exe                            string
	Args                           []string
	DependsOn                      []string
	Env                            []plan.EnvVar
	Recovery                       *plan.Recovery
	// Altered is set by Services.Config when the service does not start automatically or does not run as LocalSystem;
	// Services.Update puts that right. It is false in what is planned, so that a comparison sees the difference.
	Altered bool
}

// ServiceStatus is the running state of a service.
type ServiceStatus struct {
	State ServiceState
	PID   uint32
	// ExitCode is the Win32 or service-specific exit code of a stopped service.
	ExitCode uint32
}

// Services is the service control manager. Nothing waits: Start and Stop return when the request is accepted.
type Services interface {
	// Config returns ErrServiceNotFound when there is none.
	Config(name string) (ServiceConfig, error)
	Status(name string) (ServiceStatus, error)
	Create(ServiceConfig) error
	Update(ServiceConfig) error
	// Delete marks the service for deletion; it is gone when it has stopped and its last handle is closed.
	Delete(name string) error
	Start(name string) error
	Stop(name string) error
	// Control sends a user-defined code, 128 to 255.
	Control(name string, code uint32) error
	// Dependents names the services that run and depend on it.
	Dependents(name string) ([]string, error)
}

// Networks is the Host Networking Service.
type Networks interface {
	// Get returns ErrNetworkNotFound when there is none of that name.
	Get(name string) (plan.Network, error)
	// Create makes the network; the machine's link drops while the virtual switch is made.
	Create(ctx context.Context, n plan.Network) error
	Delete(ctx context.Context, name string) error
	// Endpoint returns the endpoint of that name in the network, and whether it is attached to the host itself; ErrEndpointNotFound when there is
	// none.
	Endpoint(network, name string) (e plan.HostEndpoint, attached bool, err error)
	// CreateEndpoint makes an endpoint; ErrExist when its address is another endpoint's.
	CreateEndpoint(ctx context.Context, network string, e plan.HostEndpoint) error
	// AttachEndpoint gives the host an adapter on the endpoint, in compartment 1; nil when it has one. The adapter appears some time later.
	AttachEndpoint(ctx context.Context, name string) error
	// DeleteEndpoint takes the adapter away as well.
	DeleteEndpoint(ctx context.Context, name string) error
	// Remotes lists the remote subnets of an Overlay network.
	Remotes(network string) ([]plan.RemoteSubnet, error)
	AddRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error
	DeleteRemotes(ctx context.Context, network string, list []plan.RemoteSubnet) error
	// DRMAC is the hardware address of the distributed router of an Overlay network, as plan.Report has it; "" for a network without one.
	DRMAC(network string) (string, error)
}

// Routes is the persistent routing table of the management interface, and forwarding among interfaces.
type Routes interface {
	List() ([]plan.Route, error)
	Add(plan.Route) error
	Delete(plan.Route) error
	// Forwarding reports whether the adapter that holds the address forwards packets of its family; ErrAdapterNotFound when none holds it.
	Forwarding(address string) (bool, error)
	SetForwarding(address string, on bool) error
}

// Firewall is the set of the product's inbound rules.
type Firewall interface {
	// Get reports the rule of that name; ok is false when there is none.
	Get(name string) (rule plan.FirewallRule, ok bool, err error)
	// Set makes or replaces the rule.
	Set(plan.FirewallRule) error
	Delete(name string) error
}

// Certificates are the LocalMachine stores.
type Certificates interface {
	// Has reports whether the store holds the certificate (DER).
	Has(store string, der []byte) (bool, error)
	Add(store string, der []byte) error
	Delete(store string, der []byte) error
}

// Defender is Microsoft Defender's preference list.
type Defender interface {
	// Running is false where Defender is not installed; nothing else may be called then.
	Running() (bool, error)
	Has(plan.DefenderExclusion) (bool, error)
	Add(plan.DefenderExclusion) error
	Delete(plan.DefenderExclusion) error
}

// MaxOutput bounds what Programs.Output returns, in bytes; what a program writes behind it is dropped.
const MaxOutput = 64 << 10

// Programs runs programs that end by themselves.
type Programs interface {
	// Output runs exe without input until it has ended and returns its standard output. A program that runs longer than ctx is ended, and the
	// error is ctx's; one that ends with another exit code than 0 is an error.
	Output(ctx context.Context, exe string, args ...string) ([]byte, error)
}

// Machine is what the machine says of itself.
type Machine interface {
	Hostname() (string, error)
	// Version returns the build number and its update revision.
	Version() (build, ubr int, err error)
	Elevated() (bool, error)
	// BootID changes with each boot.
	BootID() (string, error)
	// FreeDisk returns the free bytes of the volume that holds path.
	FreeDisk(path string) (int64, error)
	Addresses() ([]plan.AdapterAddress, error)
	// Survey looks at what else can stand in the way; what cannot be found out is left zero, so it has no error. Its BusyPorts are all TCP
	// ports on which anything listens, and it names no Services: whose they are is the agent's to say. It ends within some seconds.
	Survey() plan.Survey
	// Dial connects from the machine.
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	// Executable is the path of the running agent.
	Executable() (string, error)
}
