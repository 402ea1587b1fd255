/* SPDX-License-Identifier: MIT
 * Which paths are tried for a file of another mount namespace. The texts are shortened ones of real systems. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/mounts.h"

/* Paths that were tried, each with the mount that it must lie in, one a line. */
struct tried {
    char text[1 << 16];
    size_t n, times;
    const char *file; /* what is sought; null: it is not found */
    bool passing;     /* it was found where it may not stay */
};

static bool is_it(void *opaque, const char *path, uint64_t mount)
{
    struct tried *t = opaque;
    t->times++;
    if (t->n < sizeof t->text - 2 * COFI__NAME_BYTES)
        t->n += (size_t)sprintf(t->text + t->n, mount ? "%s in %u\n" : "%s\n", path, (unsigned)mount);
    return t->file && !strcmp(path, t->file);
}

static bool search(struct tried *t, const char *theirs, const char *root, const char *ours, const char *name)
{
    struct cofi__mounts a, b;
    assert_int_equal(cofi__mounts_parse(&a, theirs, strlen(theirs), root), 0);
    assert_int_equal(cofi__mounts_parse(&b, ours, strlen(ours), ""), 0);
    struct cofi__search s = {.theirs = &a, .ours = &b, .is_it = is_it, .opaque = t};
    bool found = cofi__mounts_search(&s, name);
    t->passing = s.passing;
    cofi__mounts_free(&a);
    cofi__mounts_free(&b);
    return found;
}

static void expect(const char *theirs, const char *ours, const char *name, const char *paths)
{
    struct tried t = {.n = 0};
    assert_false(search(&t, theirs, "", ours, name));
    assert_string_equal(t.text, paths);
}

static const char host[] =
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "23 22 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:12 - proc proc rw\n"
    "30 22 254:2 / /srv rw,relatime shared:20 - ext4 /dev/vdb rw\n"
    "31 22 254:1 /home/me/with\\040space /mnt/my\\040bind rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "420 22 0:57 / /var/lib/docker/overlay2/ab12/merged rw,relatime shared:222 - overlay overlay "
    "rw,lowerdir=/var/lib/docker/overlay2/l/AAA:/var/lib/docker/overlay2/l/BBB,upperdir=/var/lib/docker/overlay2/ab12/diff,"
    "workdir=/var/lib/docker/overlay2/ab12/work\n"
    "512 22 7:3 / /snap/core22/1380 ro,nodev,relatime shared:90 - squashfs /dev/loop3 ro,errors=continue,threads=single\n";

/* runc: the root is the overlay, hosts and volumes are bound. */
static const char docker[] =
    "700 650 0:57 / / rw,relatime master:222 - overlay overlay "
    "rw,lowerdir=/var/lib/docker/overlay2/l/AAA:/var/lib/docker/overlay2/l/BBB,upperdir=/var/lib/docker/overlay2/ab12/diff,"
    "workdir=/var/lib/docker/overlay2/ab12/work\n"
    "701 700 0:60 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw\n"
    "702 700 0:61 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755,inode64\n"
    "710 700 254:1 /var/lib/docker/containers/ab12/hosts /etc/hosts rw,relatime - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "711 700 254:1 /home/me/src /src rw,relatime - ext4 /dev/vda1 rw,errors=remount-ro\n"
    "712 700 254:2 /data/opt /opt/tool rw,relatime - ext4 /dev/vdb rw\n";

static void an_overlays_layers_are_tried_from_the_uppermost_and_then_where_it_is_mounted_here(void **state)
{
    (void)state;
    expect(docker, host, "/usr/bin/perl",
           "/var/lib/docker/overlay2/ab12/diff/usr/bin/perl\n"
           "/var/lib/docker/overlay2/ab12/merged/var/lib/docker/overlay2/ab12/diff/usr/bin/perl in 420\n"
           "/var/lib/docker/overlay2/l/AAA/usr/bin/perl\n"
           "/var/lib/docker/overlay2/ab12/merged/var/lib/docker/overlay2/l/AAA/usr/bin/perl in 420\n"
           "/var/lib/docker/overlay2/l/BBB/usr/bin/perl\n"
           "/var/lib/docker/overlay2/ab12/merged/var/lib/docker/overlay2/l/BBB/usr/bin/perl in 420\n"
           "/var/lib/docker/overlay2/ab12/merged/usr/bin/perl in 420\n");
}

static void a_search_ends_with_the_first_path_that_is_the_files(void **state)
{
    (void)state;
    static struct tried t;
    t.file = "/var/lib/docker/overlay2/l/AAA/usr/bin/perl";
    assert_true(search(&t, docker, "", host, "/usr/bin/perl"));
    assert_int_equal(t.times, 3);
}

static bool passes(const char *theirs, const char *file, const char *name)
{
    static struct tried t;
    t = (struct tried){.file = file};
    assert_true(search(&t, theirs, "", host, name));
    return t.passing;
}

static void only_what_a_container_wrote_and_its_overlay_may_go_with_it(void **state)
{
    (void)state;
    assert_true(passes(docker, "/var/lib/docker/overlay2/ab12/diff/usr/bin/perl", "/usr/bin/perl"));
    assert_false(passes(docker, "/var/lib/docker/overlay2/l/AAA/usr/bin/perl", "/usr/bin/perl"));
    assert_false(passes(docker, "/var/lib/docker/overlay2/l/BBB/usr/bin/perl", "/usr/bin/perl"));
    assert_true(passes(docker, "/var/lib/docker/overlay2/ab12/merged/usr/bin/perl", "/usr/bin/perl"));
    assert_false(passes(docker, "/srv/data/opt/x", "/opt/tool/x"));
    static const char fuse[] = "640 600 254:2 / / rw,nodev,noatime - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0,group_id=0\n";
    assert_true(passes(fuse, "/srv/x", "/x"));
}

static void a_volume_is_found_by_its_directory_in_the_file_system(void **state)
{
    (void)state;
    static struct tried t;
    t.file = "/srv/data/opt/bin/x";
    assert_true(search(&t, docker, "", host, "/opt/tool/bin/x"));
    assert_string_equal(t.text, "/srv/data/opt/bin/x in 30\n");
}

static void a_file_that_is_mounted_is_found_by_its_own_name(void **state)
{
    (void)state;
    static struct tried t;
    t.file = "/var/lib/docker/containers/ab12/hosts";
    assert_true(search(&t, docker, "", host, "/etc/hosts"));
    assert_string_equal(t.text, "/var/lib/docker/containers/ab12/hosts in 22\n");
}

static void a_name_that_only_begins_like_a_mount_is_not_in_it(void **state)
{
    (void)state;
    expect("5 1 8:1 / /opt rw - ext4 /dev/sda1 rw\n", "1 0 8:1 / /x rw - ext4 /dev/sda1 rw\n", "/option/a", "");
    expect("5 1 8:1 /a /opt rw - ext4 /dev/sda1 rw\n", "1 0 8:1 / /x rw - ext4 /dev/sda1 rw\n", "/opt/b", "/x/a/b in 1\n");
    expect("5 1 8:1 /ab /opt rw - ext4 /dev/sda1 rw\n", "1 0 8:1 /a /x rw - ext4 /dev/sda1 rw\n", "/opt/b", "");
    expect("5 1 8:1 /a/b /opt rw - ext4 /dev/sda1 rw\n", "1 0 8:1 /a /x rw - ext4 /dev/sda1 rw\n", "/opt/c", "/x/b/c in 1\n");
}

static void spaces_and_backslashes_are_escaped(void **state)
{
    (void)state;
    expect("5 1 254:1 /home/me/with\\040space/a\\134b /a\\012b rw - ext4 /dev/vda1 rw\n", host, "/a\nb/x",
           "/home/me/with space/a\\b/x in 22\n/mnt/my bind/a\\b/x in 31\n");
}

static void a_directory_of_lxc_or_nspawn_is_one_of_ours(void **state)
{
    (void)state;
    static const char lxc[] = "300 299 254:1 /var/lib/lxc/deb/rootfs / rw,relatime master:1 - ext4 /dev/vda1 rw,errors=remount-ro\n"
                              "301 300 0:50 / /dev rw,relatime - tmpfs none rw,size=492k,mode=755,uid=100000,gid=100000\n";
    static const char nspawn[] = "881 880 254:2 /machines/deb / rw,relatime shared:500 - ext4 /dev/vdb rw\n"
                                 "885 881 0:71 / /run rw,nosuid,nodev shared:503 - tmpfs tmpfs rw,size=20%,mode=755\n"
                                 "899 885 0:26 /nspawn/incoming/deb /run/host/incoming ro,relatime master:5 - tmpfs tmpfs rw\n";
    expect(lxc, host, "/usr/bin/dash", "/var/lib/lxc/deb/rootfs/usr/bin/dash in 22\n");
    expect(nspawn, host, "/usr/bin/dash", "/srv/machines/deb/usr/bin/dash in 30\n");
}

static void a_snaps_squashfs_is_one_of_ours(void **state)
{
    (void)state;
    static const char snap[] = "900 899 7:3 / / ro,nodev,relatime master:90 - squashfs /dev/loop3 ro,errors=continue,threads=single\n"
                               "901 900 254:1 /home /home rw,relatime master:1 - ext4 /dev/vda1 rw,errors=remount-ro\n";
    expect(snap, host, "/usr/bin/python3.10", "/snap/core22/1380/usr/bin/python3.10 in 512\n");
    expect(snap, host, "/home/me/a", "/home/me/a in 22\n/snap/core22/1380/home/me/a in 512\n");
}

static void layers_of_fuse_overlayfs_are_told_to_nobody(void **state)
{
    (void)state;
    static const char podman[] =
        "640 600 0:80 / / rw,nodev,noatime - fuse.fuse-overlayfs fuse-overlayfs rw,user_id=0,group_id=0,default_permissions,allow_other\n"
        "655 640 254:1 /home/me/.local/share/containers/storage/volumes/v/_data /v rw,relatime master:1 - ext4 /dev/vda1 rw\n";
    expect(podman, host, "/usr/bin/dash", "");
    expect(podman, host, "/v/dash", "/home/me/.local/share/containers/storage/volumes/v/_data/dash in 22\n");
}

static void relative_layers_lie_where_the_upper_one_does_or_in_a_store(void **state)
{
    (void)state;
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir=2/fs:1/fs,upperdir=/S/snapshots/3/fs,workdir=/S/snapshots/3/work,uuid=on\n", "", "/a",
           "/S/snapshots/3/fs/a\n"
           "/S/snapshots/2/fs/a\n/var/lib/docker/overlay2/2/fs/a\n/var/lib/containers/storage/overlay/2/fs/a\n"
           "/S/snapshots/1/fs/a\n/var/lib/docker/overlay2/1/fs/a\n/var/lib/containers/storage/overlay/1/fs/a\n");
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir=l/X,upperdir=ab/diff,workdir=ab/work\n", "", "/a",
           "/var/lib/docker/overlay2/ab/diff/a\n/var/lib/containers/storage/overlay/ab/diff/a\n"
           "/var/lib/docker/overlay2/l/X/a\n/var/lib/containers/storage/overlay/l/X/a\n");
}

static void colons_and_commas_in_layers_are_escaped(void **state)
{
    (void)state;
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir=/a\\134:b:/c\\054d:/e\\134\\134f::/data,nfs_export=on\n", "", "/x",
           "/a:b/x\n/c,d/x\n/e\\f/x\n/data/x\n");
}

static void layers_that_are_added_one_by_one_are_in_order(void **state)
{
    (void)state;
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir+=/a:b,lowerdir+=/c,datadir+=/d,upperdir=/u,workdir=/w,uuid=null\n", "", "/x",
           "/u/x\n/a:b/x\n/c/x\n");
}

static void part_of_an_overlay_is_below_its_layers(void **state)
{
    (void)state;
    expect("5 1 0:90 /usr /mnt rw - overlay overlay ro,lowerdir=/a:/b\n", "", "/mnt/bin/x", "/a/usr/bin/x\n/b/usr/bin/x\n");
}

static void our_root_may_be_a_layer(void **state)
{
    (void)state;
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir=/,upperdir=/u,workdir=/w\n", "", "/bin/x", "/u/bin/x\n/bin/x\n");
    expect("5 1 0:90 / / rw - overlay overlay rw,lowerdir=l,upperdir=/u\n", "", "/x",
           "/u/x\n/l/x\n/var/lib/docker/overlay2/l/x\n/var/lib/containers/storage/overlay/l/x\n");
}

static void layers_are_looked_for_by_the_processs_own_mounts_too(void **state)
{
    (void)state;
    expect("4 1 254:2 /layers /l rw - ext4 /dev/vdb rw\n5 1 0:90 / /mnt rw - overlay overlay ro,lowerdir=/l/a\n", host, "/mnt/x",
           "/l/a/x\n/srv/layers/a/x in 30\n");
}

static void what_later_mounts_cover_comes_last(void **state)
{
    (void)state;
    expect("1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / /m rw - ext4 b rw\n3 2 8:3 / /m rw - ext4 c rw\n4 3 8:4 / /m/other rw - ext4 d rw\n",
           "1 0 8:1 / /1 rw - ext4 a rw\n2 1 8:2 / /2 rw - ext4 b rw\n3 1 8:3 / /3 rw - ext4 c rw\n", "/m/x",
           "/3/x in 3\n/2/x in 2\n/1/m/x in 1\n");
}

static void names_are_below_the_root_that_a_text_is_of(void **state)
{
    (void)state;
    static struct tried t;
    static const char theirs[] = "7 6 254:2 /lib /usr/lib rw - ext4 /dev/vdb rw\n";
    assert_false(search(&t, theirs, "/jail", host, "/jail/usr/lib/x"));
    assert_false(search(&t, theirs, "/jail", host, "/usr/lib/x"));
    assert_false(search(&t, theirs, "/jail", host, "/jailer/usr/lib/x"));
    assert_string_equal(t.text, "/srv/lib/x in 30\n");
}

static void deleted_mounts_and_lines_that_are_none_are_left_out(void **state)
{
    (void)state;
    expect("1 0 8:1 / /a//deleted rw - ext4 a rw\n2 0 8:1 /x//deleted /a rw - ext4 a rw\n3 0 0:4 mnt:[4026532] /a rw - nsfs nsfs rw\n"
           "4\n\n5 0 8:1\n6 0 eight:1 / /a rw - ext4 a rw\n7 0 8:1 / /a rw shared:1 master:2\n8 0 8:1 /y /a rw - ext4  rw\n9 0 8:1 /cut /a rw",
           "1 0 8:1 / / rw - ext4 a rw\n", "/a/f", "/y/f in 1\n/f in 1\n");
}

static void a_path_that_is_too_long_is_not_tried(void **state)
{
    (void)state;
    char text[9000], deep[COFI__NAME_BYTES];
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    snprintf(text, sizeof text, "1 0 8:1 / /m rw - ext4 a rw\n2 0 8:2 / /n rw - overlay o rw,lowerdir=/%s:/e\n", deep);
    expect(text, "1 0 8:1 / /somewhere/else rw - ext4 a rw\n", "/n/f", "/e/f\n");
    deep[0] = '/';
    memcpy(deep, "/m/", 3);
    expect(text, "1 0 8:1 / /somewhere/else rw - ext4 a rw\n", deep, "");
}

static void thousands_of_mounts_and_layers_cost_a_bounded_number_of_tries(void **state)
{
    (void)state;
    size_t room = 8 << 20, n = 0;
    char *text = malloc(room);
    assert_non_null(text);
    for (unsigned i = 0; i < 30000; i++)
        n += (size_t)snprintf(text + n, room - n, "%u 1 0:90 / / rw - overlay o rw,lowerdir=a:b:c:d:e:f:g:h,upperdir=/u/v/w\n", i);
    static struct tried t;
    assert_false(search(&t, text, "", text, "/x"));
    assert_true(t.times > 100);
    assert_true(t.times <= 1024);
    free(text);
}

/* Files of btrfs have numbers that no mount has. */
static void a_file_is_in_the_mount_of_its_device_or_else_of_its_path(void **state)
{
    (void)state;
    static const char text[] =
        "22 1 0:30 /@ / rw - btrfs /dev/sda2 rw\n"
        "23 22 0:31 /@home /home rw - btrfs /dev/sda2 rw\n"
        "24 23 0:57 / /home/me/.mount_x ro,nosuid - fuse.x x ro\n"
        "25 22 0:58 / /srv/a/b ro - fuse.x x ro\n"
        "26 22 0:59 / /srv/a rw - tmpfs tmpfs rw\n";
    struct cofi__mounts mounts;
    assert_int_equal(cofi__mounts_parse(&mounts, text, strlen(text), ""), 0);
    assert_true(cofi__mounts_of(&mounts, 57, "/usr/bin/x")->served);
    assert_string_equal(cofi__mounts_of(&mounts, 99, "/usr/bin/x")->point, "/");
    assert_string_equal(cofi__mounts_of(&mounts, 99, "/home/me/x")->point, "/home");
    assert_string_equal(cofi__mounts_of(&mounts, 99, "/home/me/.mount_x/AppRun")->point, "/home/me/.mount_x");
    assert_false(cofi__mounts_of(&mounts, 99, "/home/me/.mount_xy/AppRun")->served);
    assert_string_equal(cofi__mounts_of(&mounts, 99, "/srv/a/b/x")->point, "/srv/a"); /* which covers the other */
    assert_null(cofi__mounts_of(&(struct cofi__mounts){0}, 99, "/usr/bin/x"));
    cofi__mounts_free(&mounts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlays_layers_are_tried_from_the_uppermost_and_then_where_it_is_mounted_here),
        cmocka_unit_test(a_search_ends_with_the_first_path_that_is_the_files),
        cmocka_unit_test(only_what_a_container_wrote_and_its_overlay_may_go_with_it),
        cmocka_unit_test(a_volume_is_found_by_its_directory_in_the_file_system),
        cmocka_unit_test(a_file_that_is_mounted_is_found_by_its_own_name),
        cmocka_unit_test(a_name_that_only_begins_like_a_mount_is_not_in_it),
        cmocka_unit_test(spaces_and_backslashes_are_escaped),
        cmocka_unit_test(a_directory_of_lxc_or_nspawn_is_one_of_ours),
        cmocka_unit_test(a_snaps_squashfs_is_one_of_ours),
        cmocka_unit_test(layers_of_fuse_overlayfs_are_told_to_nobody),
        cmocka_unit_test(relative_layers_lie_where_the_upper_one_does_or_in_a_store),
        cmocka_unit_test(colons_and_commas_in_layers_are_escaped),
        cmocka_unit_test(layers_that_are_added_one_by_one_are_in_order),
        cmocka_unit_test(part_of_an_overlay_is_below_its_layers),
        cmocka_unit_test(our_root_may_be_a_layer),
        cmocka_unit_test(layers_are_looked_for_by_the_processs_own_mounts_too),
        cmocka_unit_test(what_later_mounts_cover_comes_last),
        cmocka_unit_test(names_are_below_the_root_that_a_text_is_of),
        cmocka_unit_test(deleted_mounts_and_lines_that_are_none_are_left_out),
        cmocka_unit_test(a_path_that_is_too_long_is_not_tried),
        cmocka_unit_test(a_file_is_in_the_mount_of_its_device_or_else_of_its_path),
        cmocka_unit_test(thousands_of_mounts_and_layers_cost_a_bounded_number_of_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
