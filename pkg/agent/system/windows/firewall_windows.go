package windows

import (
	"fmt"
	"strconv"

	"github.com/go-ole/go-ole"
	"github.com/go-ole/go-ole/oleutil"

	"github.com/windowsmachine/operator/pkg/plan"
)

// maxRules bounds how many firewall rules are looked at.
const maxRules = 20_000

// firewall is Windows Firewall with Advanced Security (INetFwPolicy2). A rule's name need not be unique there, so that the product's rules
// are told from others by their grouping.
type firewall struct{}

func (firewall) Get(name string) (rule plan.FirewallRule, ok bool, err error) {
	err = withRules(func(rules *ole.IDispatch) error {
		ours, _, err := named(rules, name)
		if err != nil || len(ours) != 1 {
			return err
		}
		rule, ok = ours[0].rule()
		return nil
	})
	return rule, ok, failed("look at firewall rule", name, err)
}

// Set removes what the product has under the name, then adds the rule.
func (f firewall) Set(rule plan.FirewallRule) error {
	protocol, err := ruleProtocol(rule.Protocol)
	if err != nil {
		return fmt.Errorf("firewall rule %s: %w", rule.Name, err)
	}
	err = withRules(func(rules *ole.IDispatch) error {
		if err := removeNamed(rules, rule.Name); err != nil {
			return err
		}
		return withObject("HNetCfg.FWRule", func(object *ole.IDispatch) error {
			// The protocol must be set before the port.
			err := put(object,
				namedValue{"Name", rule.Name}, namedValue{"Grouping", ruleGroup}, namedValue{"Protocol", protocol},
				namedValue{"LocalPorts", strconv.Itoa(rule.Port)}, namedValue{"Direction", fwIn}, namedValue{"Action", fwAllow},
				namedValue{"Profiles", fwAllProfiles}, namedValue{"Enabled", true})
			if err != nil {
				return err
			}
			return discard(oleutil.CallMethod(rules, "Add", object))
		})
	})
	return failed("set firewall rule", rule.Name, err)
}

func (firewall) Delete(name string) error {
	return failed("delete firewall rule", name, withRules(func(rules *ole.IDispatch) error { return removeNamed(rules, name) }))
}

// withRules calls f with the collection of rules (INetFwRules).
func withRules(f func(*ole.IDispatch) error) error {
	return withCOM(func() error {
		return withObject("HNetCfg.FwPolicy2", func(policy *ole.IDispatch) error {
			v, err := oleutil.GetProperty(policy, "Rules")
			return withChild(v, err, f)
		})
	})
}

// named returns the product's rules of that name and how many of others have it too.
func named(rules *ole.IDispatch, name string) (ours []fwRule, others int, err error) {
	err = eachNamed(rules, name, func(object *ole.IDispatch) error {
		rule, err := readRule(object)
		if err != nil {
			return err
		}
		if rule.group == ruleGroup {
			ours = append(ours, rule)
		} else {
			others++
		}
		return nil
	})
	return ours, others, err
}

// eachNamed calls f with every rule of that name. Item finds only the first of several, and answers at once when there is none, which
// is the usual case.
func eachNamed(rules *ole.IDispatch, name string, f func(*ole.IDispatch) error) error {
	switch err := discard(oleutil.CallMethod(rules, "Item", name)); {
	case err != nil && is(err, 2): // ERROR_FILE_NOT_FOUND
		return nil
	case err != nil:
		return err
	}
	seen := 0
	return oleutil.ForEach(rules, func(v *ole.VARIANT) error {
		if seen++; seen > maxRules {
			return fmt.Errorf("more than %d firewall rules", maxRules)
		}
		return withChild(v, nil, func(object *ole.IDispatch) error {
			var found string
			if err := property(object, "Name", &found); err != nil || found != name {
				return err
			}
			return f(object)
		})
	})
}

func readRule(object *ole.IDispatch) (fwRule, error) {
	var (
		r                                     fwRule
		protocol, direction, action, profiles int32
	)
	for _, err := range []error{
		property(object, "Name", &r.name), property(object, "Grouping", &r.group), property(object, "LocalPorts", &r.ports),
		property(object, "RemoteAddresses", &r.remoteIPs), property(object, "ApplicationName", &r.program),
		property(object, "Enabled", &r.enabled), property(object, "Protocol", &protocol),
		property(object, "Direction", &direction), property(object, "Action", &action), property(object, "Profiles", &profiles),
	} {
		if err != nil {
			return r, err
		}
	}
	r.protocol, r.direction, r.action, r.profiles = int(protocol), int(direction), int(action), int(profiles)
	return r, nil
}

// removeNamed removes the product's rules of that name. INetFwRules.Remove goes by name alone, so that where others use the name too, ours
// first get one that nobody has.
func removeNamed(rules *ole.IDispatch, name string) error {
	ours, others, err := named(rules, name)
	if err != nil || len(ours) == 0 {
		return err
	}
	remove := name
	if others > 0 {
		remove = ruleGroup + ": removed " + name
		err := eachNamed(rules, name, func(object *ole.IDispatch) error {
			var group string
			if err := property(object, "Grouping", &group); err != nil || group != ruleGroup {
				return err
			}
			return put(object, namedValue{"Name", remove})
		})
		if err != nil {
			return err
		}
	}
	for range ours {
		if err := discard(oleutil.CallMethod(rules, "Remove", remove)); err != nil {
			return err
		}
	}
	return nil
}
