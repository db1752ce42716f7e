package hns

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Status is an HRESULT.
type Status uint32

// Statuses of HNS (winerror.h, facility HCN, but for the first and the last two).
const (
	OK               Status = 0
	NetworkNotFound  Status = 0x803b0001
	EndpointNotFound Status = 0x803b0002
	InvalidType      Status = 0x803b000b // HCN_E_INVALID_NETWORK_TYPE
	InvalidPolicy    Status = 0x803b000e // HCN_E_INVALID_POLICY_TYPE
	AlreadyExists    Status = 0x803b0010 // HCN_E_NETWORK_ALREADY_EXISTS
	PortExists       Status = 0x803b0013 // HCN_E_PORT_ALREADY_EXISTS: a load balancer with that front end is there
	NotSupported     Status = 0x803b0015 // HCN_E_REQUEST_UNSUPPORTED
	InvalidJSON      Status = 0x803b001b
	ObjectExists     Status = 0x80071392 // ERROR_OBJECT_ALREADY_EXISTS: another endpoint has the address
	NotFound         Status = 0x80070490 // ERROR_NOT_FOUND
	Failed           Status = 0x80004005 // E_FAIL
)

// Call is one line of the journal.
type Call struct {
	// At is when it came.
	At time.Time
	// Function is CreateNetwork, HNS:GET and so on; Object the id or path that it was about, Document what came with it.
	Function, Object, Document string
	Status                     Status
}

// Options of New.
type Options struct {
	// State is the file that keeps objects over a boot, HNS.data on a real machine; "" for none.
	State string
	// ManagementIP is the address of the adapter that networks bind to.
	ManagementIP string
	// NetworkMade is called when a network was made, before the answer: on a real machine the link drops now. Nil for nothing.
	NetworkMade func()
	// HostAddress is called when the host gets an adapter with that address on an endpoint, and when it loses it; nil for nothing.
	HostAddress func(address string, there bool)
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Service is one machine's HNS. It is safe for concurrent use.
type Service struct {
	opts Options

	mu      sync.Mutex
	objects map[string][]object
	journal []Call
}

// object is a document with an upper-case "ID".
type object map[string]any

const (
	kindNetwork      = "Network"
	kindEndpoint     = "Endpoint"
	kindNamespace    = "Namespace"
	kindLoadBalancer = "LoadBalancer"
	kindRoute        = "SdnRoute"

	keyID        = "ID"
	keyName      = "Name"
	keyNetwork   = "HostComputeNetwork"
	keyNamespace = "HostComputeNamespace"
	keyPolicies  = "Policies"
)

// New returns the service with what its state file holds.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{opts: o, objects: map[string][]object{}}
	if o.State == "" {
		return s, nil
	}
	b, err := os.ReadFile(o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of HNS: %w", err)
	}
	if err := json.Unmarshal(b, &s.objects); err != nil {
		return nil, fmt.Errorf("reading the state of HNS: %w", err)
	}
	return s, nil
}

// Journal returns all calls so far.
func (s *Service) Journal() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal)
}

// Networks names the networks that there are.
func (s *Service) Networks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.objects[kindNetwork] {
		out = append(out, n.text(keyName))
	}
	return out
}

// nonPersistent is EnableNonPersistent in a network's flags.
const nonPersistent = 8

// Boot forgets what does not outlive a boot: networks that are not persistent, endpoints, namespaces, load balancers, routes.
func (s *Service) Boot() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Clone(s.objects[kindNetwork]) {
		if flags, _ := n["Flags"].(float64); int(flags)&nonPersistent != 0 {
			s.drop(kindNetwork, n)
		}
	}
	for _, e := range slices.Clone(s.objects[kindEndpoint]) {
		s.drop(kindEndpoint, e)
	}
	for _, kind := range []string{kindNamespace, kindLoadBalancer, kindRoute} {
		delete(s.objects, kind)
	}
	return s.save()
}

// answer is what a call comes back with.
type answer struct {
	status  Status
	id      string
	payload string
	// changed is whether there is something to save, made whether it was a new network.
	changed, made bool
}

// Do carries out a call of the API: a function such as CreateNetwork, the id of the object or of the network it belongs to, for the older
// interface a path, and a document.
func (s *Service) Do(function, id, network, path, document string) (status Status, made, payload string) {
	s.mu.Lock()
	a := s.do(function, strings.ToUpper(id), strings.ToUpper(network), path, document)
	about := id
	if path != "" {
		about = path
	}
	if a.changed {
		if err := s.save(); err != nil {
			a = refuse(Failed, "saving: %v", err)
		}
	}
	s.journal = append(s.journal, Call{At: s.opts.Now(), Function: function, Object: about, Document: document, Status: a.status})
	s.mu.Unlock()
	if a.made && s.opts.NetworkMade != nil {
		s.opts.NetworkMade()
	}
	return a.status, a.id, a.payload
}

func (s *Service) do(function, id, network, path, document string) answer {
	if method, ok := strings.CutPrefix(function, "HNS:"); ok {
		return s.older(method, strings.Trim(path, "/"), document)
	}
	for verb, f := range map[string]func(kind, id, network, document string) answer{
		"Create": s.create, "Enumerate": s.enumerate, "Open": s.open, "Query": s.query, "Delete": s.remove, "Modify": s.modify,
	} {
		if kind, ok := strings.CutPrefix(function, verb); ok {
			return f(kind, id, network, document)
		}
	}
	return refuse(NotSupported, "%s", function)
}

func refuse(status Status, format string, args ...any) answer {
	return answer{status: status, payload: encode(object{"Success": false, "Error": fmt.Sprintf(format, args...), "ErrorCode": uint32(status)})}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // Everything here came out of JSON, or is text and numbers.
	}
	return string(b)
}

// text returns a member by name in any case, "" when it is none.
func (o object) text(name string) string {
	for k, v := range o {
		if strings.EqualFold(k, name) {
			t, _ := v.(string)
			return t
		}
	}
	return ""
}

func (s *Service) find(kind, id string) (object, bool) {
	for _, o := range s.objects[kind] {
		if strings.EqualFold(o.text(keyID), id) {
			return o, true
		}
	}
	return nil, false
}

func missing(kind string) answer {
	status := NotFound
	switch kind {
	case kindNetwork:
		status = NetworkNotFound
	case kindEndpoint:
		status = EndpointNotFound
	}
	return refuse(status, "%s not found", kind)
}

const noID = "00000000-0000-0000-0000-000000000000"

func (s *Service) create(kind, id, network, document string) answer {
	o := object{}
	if err := json.Unmarshal([]byte(document), &o); err != nil {
		return refuse(InvalidJSON, "%v", err)
	}
	if given := strings.ToUpper(o.text(keyID)); given != "" {
		id = given
	}
	if id == "" || id == noID {
		id = newID()
	}
	delete(o, "Id")
	o[keyID] = id
	if _, there := s.find(kind, id); there {
		return refuse(AlreadyExists, "%s %s already exists", kind, id)
	}
	if a := s.check(kind, network, o); a.status != OK {
		return a
	}
	s.objects[kind] = append(s.objects[kind], o)
	return answer{id: id, changed: true, made: kind == kindNetwork}
}

func (s *Service) check(kind, network string, o object) answer {
	switch kind {
	case kindNetwork:
		return s.checkNetwork(o)
	case kindEndpoint:
		return s.checkEndpoint(network, o)
	case kindLoadBalancer:
		return s.checkLoadBalancer(o)
	}
	return checkPolicies(o[keyPolicies])
}

func (s *Service) checkNetwork(o object) answer {
	if !slices.Contains([]string{"NAT", "ICS", "Transparent", "L2Bridge", "L2Tunnel", "Overlay", "Private", "Internal"}, o.text("Type")) {
		return refuse(InvalidType, "network type %q", o.text("Type"))
	}
	for _, n := range s.objects[kindNetwork] {
		if strings.EqualFold(n.text(keyName), o.text(keyName)) {
			return refuse(AlreadyExists, "network %s already exists", n.text(keyName))
		}
	}
	if a := checkPolicies(o[keyPolicies]); a.status != OK {
		return a
	}
	if o.text("Type") == "Overlay" {
		s.addRouter(o)
	}
	return answer{}
}

// addRouter gives an overlay a distributed router, whose hardware address HNS tells in a policy.
func (s *Service) addRouter(o object) {
	have, _ := o[keyPolicies].([]any)
	o[keyPolicies] = append(have, map[string]any{
		"Type": "DrMacAddress", "Settings": map[string]any{"Address": fmt.Sprintf("00-15-5D-FF-00-%02X", len(s.objects[kindNetwork])+1)},
	})
}

func (s *Service) checkEndpoint(network string, o object) answer {
	if network != "" {
		o[keyNetwork] = network
	}
	if _, ok := s.find(kindNetwork, o.text(keyNetwork)); !ok {
		return missing(kindNetwork)
	}
	if o.text("MacAddress") == "" {
		o["MacAddress"] = fmt.Sprintf("00-15-5D-00-00-%02X", len(s.objects[kindEndpoint])+1)
	}
	return checkPolicies(o[keyPolicies])
}

// policies are the types of the schema (HNS.Schema 2, NetworkPolicyType and EndpointPolicyType).
func policies() []string {
	return []string{
		"NetAdapterName", "VSID", "VLAN", "DrMacAddress", "AutomaticDNS", "InterfaceConstraint", "ProviderAddress", "RemoteSubnetRoute",
		"HostRoute", "VxlanPort", "L4Proxy", "SourceMacAddress", "NetworkACL", "SetPolicy", "PortMapping", "ACL", "QOS", "L2Driver",
		"OutBoundNAT", "SDNRoute", "PortName", "L4WFPPROXY", "EncapOverhead", "PAT", "IOV", "AutomaticDns",
	}
}

func checkPolicies(v any) answer {
	list, _ := v.([]any)
	for _, p := range list {
		m, _ := p.(map[string]any)
		if kind := object(m).text("Type"); !slices.Contains(policies(), kind) {
			return refuse(InvalidPolicy, "policy type %q", kind)
		}
	}
	return answer{}
}

// enumerate answers with the ids, as HNS does; who asks opens each and queries it.
func (s *Service) enumerate(kind, _, _, document string) answer {
	var query struct{ Filter string }
	filter := map[string]any{}
	if err := json.Unmarshal([]byte(document), &query); document != "" && err != nil {
		return refuse(InvalidJSON, "%v", err)
	}
	if query.Filter != "" {
		if err := json.Unmarshal([]byte(query.Filter), &filter); err != nil {
			return refuse(InvalidJSON, "filter: %v", err)
		}
	}
	ids := []string{}
	for _, o := range s.objects[kind] {
		if o.matches(filter) {
			ids = append(ids, o.text(keyID))
		}
	}
	return answer{payload: encode(ids)}
}

func (o object) matches(filter map[string]any) bool {
	for k, v := range filter {
		if k == "VirtualNetwork" { // the older name of the same
			k = keyNetwork
		}
		if want, _ := v.(string); !strings.EqualFold(o.text(k), want) {
			return false
		}
	}
	return true
}

func (s *Service) open(kind, id, _, _ string) answer {
	if _, ok := s.find(kind, id); !ok {
		return missing(kind)
	}
	return answer{id: id}
}

// query is asked as "QueryNetworkProperties" on Windows; the library in the machine leaves the end out.
func (s *Service) query(kind, id, _, _ string) answer {
	o, ok := s.find(kind, id)
	if !ok {
		return missing(kind)
	}
	return answer{id: id, payload: encode(o)}
}

func (s *Service) remove(kind, id, _, _ string) answer {
	o, ok := s.find(kind, id)
	if !ok {
		return missing(kind)
	}
	s.drop(kind, o)
	return answer{id: id, changed: true}
}

// drop removes an object; a network takes its endpoints along.
func (s *Service) drop(kind string, o object) {
	id := o.text(keyID)
	if kind == kindEndpoint && o.attached() && s.opts.HostAddress != nil {
		s.opts.HostAddress(addressOf(o), false)
	}
	if kind == kindNetwork {
		for _, e := range slices.Clone(s.objects[kindEndpoint]) {
			if strings.EqualFold(e.text(keyNetwork), id) {
				s.drop(kindEndpoint, e)
			}
		}
	}
	s.objects[kind] = slices.DeleteFunc(s.objects[kind], func(x object) bool { return x.text(keyID) == id })
}

func (s *Service) save() error {
	if s.opts.State == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.opts.State), 0o755); err != nil {
		return err
	}
	return os.WriteFile(s.opts.State, []byte(encode(s.objects)), 0o600)
}

func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // It never fails: crypto/rand ends the program instead.
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}
