//! A cluster on machines of their own, between which the network fails: no answer that was seen is lost,
//! none is there twice, and every node's books are right.

use std::thread;
use std::time::Duration;

use cardswitch_harness::{
    Cluster, Direction, Installation, Random, campaign_scaled, etcd_machine, has_machines,
    node_machine, seed_for,
};

use crate::failover::endure;

/// The length of a cut that leads to no other leader: longer than a silent leader is waited for.
const CUT: Duration = Duration::from_millis(3_000);

/// The part of the network that fails.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The plug of the leader.
    Leader,
    /// Nodes reach every member of etcd and every client, but not each other.
    NodesFromEachOther,
    /// The leader hears nothing from etcd, which hears it: answers are lost.
    DeafLeader,
    /// The leader's words to etcd are lost: nothing arrives.
    MuteLeader,
    /// The plugs of the leader and of a member of etcd.
    Machine,
    /// Members of etcd reach every node, but not each other: none of them leads.
    EtcdFromEachOther,
}

const CUTS: [Cut; 6] = [
    Cut::Leader,
    Cut::DeafLeader,
    Cut::NodesFromEachOther,
    Cut::MuteLeader,
    Cut::Machine,
    Cut::EtcdFromEachOther,
];

#[test]
fn a_cluster_loses_no_answer_whatever_the_network_loses() {
    if !has_machines("partitions") {
        return;
    }
    let mut random = Random::new(seed_for("a_cluster_loses_no_answer_whatever_the_network_loses"));
    let cluster = Cluster::on_machines(Installation::init(200, random.next_u64() >> 1));
    let rounds = campaign_scaled(CUTS.len(), 120);
    endure(cluster, &mut random, (&CUTS, rounds), |cluster, (cut, leader), random| {
        fail(cluster, (cut, leader), random.index(3));
    });
}

/// Has the network fail, and mends it.
fn fail(cluster: &Cluster, (cut, leader): (Cut, usize), member: usize) {
    let nodes = [0, 1, 2].map(node_machine);
    let etcd = [0, 1, 2].map(etcd_machine);
    let (lan, led) = (cluster.lan(), node_machine(leader));
    match cut {
        Cut::Leader => {
            lan.unplug(&[led]);
            cluster.wait_for_other_leader(leader);
            lan.plug_in(&[led]);
        }
        Cut::Machine => {
            let machine = [led, etcd_machine(member)];
            lan.unplug(&machine);
            cluster.wait_for_other_leader(leader);
            lan.plug_in(&machine);
        }
        Cut::DeafLeader | Cut::MuteLeader => {
            let is_deaf = matches!(cut, Cut::DeafLeader);
            let direction = if is_deaf { Direction::Inward } else { Direction::Outward };
            lan.lose(led, direction, &etcd);
            cluster.wait_for_other_leader(leader);
            // Once, two nodes of a cluster said that they were ready.
            let told = cluster.wait_until_told(leader, |told| !told["etcd"].is_null());
            assert_eq!(told["status"], "unreachable", "{told}");
            lan.lose_nothing(led);
        }
        Cut::NodesFromEachOther => {
            lan.part(&nodes);
            thread::sleep(CUT);
            // A leader that reaches etcd is heard by all nodes: none takes over.
            assert!(cluster.is_led_by(leader), "{leader} led");
            lan.rejoin(&nodes);
        }
        Cut::EtcdFromEachOther => {
            lan.part(&etcd);
            thread::sleep(CUT);
            lan.rejoin(&etcd);
        }
    }
}
