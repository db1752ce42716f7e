package windows

import (
	"fmt"
	"strconv"

	"github.com/windowsmachine/operator/pkg/plan"
)

// ruleGroup is the grouping of the product's firewall rules, by which they are told from others of the same name.
const ruleGroup = "Windows Machine Operator"

// Numbers of the Windows Firewall (icftypes.h: NET_FW_IP_PROTOCOL, NET_FW_RULE_DIRECTION, NET_FW_ACTION,
// NET_FW_PROFILE_TYPE2).
const (
	fwTCP         = 6
	fwUDP         = 17
	fwIn          = 1
	fwAllow       = 1
	fwAllProfiles = 0x7fffffff
)

// fwRule is what INetFwRule says of a rule.
type fwRule struct {
	name, group                 string
	protocol, direction, action int
	profiles                    int
	ports, remoteIPs, program   string
	enabled                     bool
}

// ruleProtocol returns NET_FW_IP_PROTOCOL.
func ruleProtocol(protocol string) (int, error) {
	switch protocol {
	case "TCP":
		return fwTCP, nil
	case "UDP":
		return fwUDP, nil
	}
	return 0, fmt.Errorf("unknown protocol %q", protocol)
}

// rule returns the planned rule that r is; ok is false when r does not do what such a rule promises (disabled, blocking,
// outbound, not in every profile, narrowed to a program or to addresses, several ports), so that it is made anew.
func (r fwRule) rule() (rule plan.FirewallRule, ok bool) {
	if !r.enabled || r.direction != fwIn || r.action != fwAllow || r.profiles != fwAllProfiles {
		return plan.FirewallRule{}, false
	}
	if r.program != "" || r.remoteIPs != "" && r.remoteIPs != "*" {
		return plan.FirewallRule{}, false
	}
	port, err := strconv.Atoi(r.ports)
	if err != nil || port < 1 || port > 65535 {
		return plan.FirewallRule{}, false
	}
	protocol := map[int]string{fwTCP: "TCP", fwUDP: "UDP"}[r.protocol]
	return plan.FirewallRule{Name: r.name, Protocol: protocol, Port: port}, protocol != ""
}
