package main

import (
	"slices"

	"github.com/windowsmachine/operator/pkg/plan"
	"github.com/windowsmachine/operator/test/windows"
)

// subject is a row of the table.
type subject struct {
	// name is what reports and tags call it, title what the table does.
	name, title string
	// invented is whether a shim answers under Wine, and not Wine.
	invented bool
}

// Subjects that no report of test/windows has: they take more than one machine by itself.
const (
	subjectUpload = "upload"
	subjectNode   = "node"
	subjectReboot = "reboot"
	subjectPod    = "pod"
)

// subjects are the rows in order.
func subjects() []subject {
	return []subject{
		{name: subjectUpload, title: "log in over SSH, upload, `receive`"},
		{name: windows.SubjectFacts, title: "facts"},
		{name: plan.StepCredentials, title: "`write-credentials`"},
		{name: windows.SubjectAccess, title: "access control lists of what is written", invented: true},
		{name: plan.StepEnvironment, title: "`set-environment`"},
		{name: plan.StepFeatures, title: "`enable-features`", invented: true},
		{name: plan.StepDirectories, title: "`make-directories`"},
		{name: plan.StepDefender, title: "`exclude-from-defender`"},
		{name: plan.StepFiles, title: "`install-files`"},
		{name: plan.StepCertificates, title: "`import-certificates`"},
		{name: plan.StepFirewall, title: "`open-firewall`", invented: true},
		{name: plan.StepNetwork, title: "`join-network`", invented: true},
		{name: plan.StepRoutes, title: "`set-routes`"},
		{name: windows.SubjectService, title: "`start-containerd`, `start-kubelet` and other services"},
		{name: windows.SubjectOrder, title: "services start in the order of their dependencies"},
		{name: windows.SubjectRecovery, title: "a service that dies is started again"},
		{name: subjectNode, title: "certificates, Node, lease: Ready"},
		{name: subjectReboot, title: "reboot and loss of power"},
		{name: subjectPod, title: "a pod runs and has a network"},
	}
}

func known(name string) bool {
	return slices.ContainsFunc(subjects(), func(s subject) bool { return s.name == name })
}
