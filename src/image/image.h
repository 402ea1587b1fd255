/* SPDX-License-Identifier: MIT
 * The inside of an image: its changes over time. */
#ifndef COFI_IMAGE_IMAGE_H
#define COFI_IMAGE_IMAGE_H

#include <cofi/image.h>

#include "image/file.h"
#include "image/segments.h"

/* One change: from time_ns on, [addr, addr + len) shows source from pgoff; source null: nothing. */
struct cofi__change {
    uint64_t time_ns, addr, len, pgoff;
    struct cofi__source *source;
};

/* From time_ns on the address space is another one (a processor ran another process); null: none. */
struct cofi__turn {
    uint64_t time_ns;
    const struct cofi_image *image;
};

/* A name for [addr, addr + size) where no file tells one, from time_ns on. */
struct cofi__name {
    uint64_t addr, size, time_ns;
    size_t order;
    char *text;
};

/* From since_ns on the addresses are another program's (exec), or are as the parent had them (fork;
 * null: nobody knows whose). */
struct cofi__era {
    uint64_t since_ns;
    const struct cofi_image *parent;
};

struct cofi__names {
    struct cofi__name *rows; /* by address, then by when they were given */
    size_t n, room;
    struct cofi__era *eras;  /* by time; before the first one is one, too */
    size_t n_eras, eras_room;
};

struct cofi_image {
    struct cofi__change *changes; /* by time, stable */
    size_t n, room;
    struct cofi__store **stores;  /* [0] is its own, the rest belong to what was forked from */
    size_t n_stores;
    const struct cofi_image *kernel; /* what the upper half of the addresses shows, or null */
    struct cofi__turn *turns;        /* by time; an image with turns has no changes of its own */
    size_t n_turns, turns_room;
    struct cofi__names names;
};

/* names.c: give names, those for an address in the order of their times (0: always), then say that these
 * are all; begin an era, in the order of their times, the parent to live as long as the image; ask at
 * now_ns for the name of code which was there first at time_ns; let go of all that. */
int cofi__image_name(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t size, const char *name);
void cofi__image_names_done(struct cofi_image *image);
int cofi__image_names_era(struct cofi_image *image, uint64_t since_ns, const struct cofi_image *parent);
const struct cofi__name *cofi__image_name_at(const struct cofi_image *image, uint64_t now_ns, uint64_t time_ns,
                                             uint64_t addr);
void cofi__image_names_free(struct cofi_image *image);

/* cofi_image_map_bytes for one function whose name is the label. */
int cofi__image_named_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr, const uint8_t *bytes, size_t len,
                            const char *name);

/* An image whose sources are in a store shared with others (a count is taken). */
int cofi__image_open_in(struct cofi_image **image, struct cofi__store *store);
/* From now on the upper half of the address space is the kernel's image (not owned). */
void cofi__image_set_kernel(struct cofi_image *image, const struct cofi_image *kernel);
/* From time_ns on the lower half shows another image (not owned; null: nothing). In time order. */
int cofi__image_turn(struct cofi_image *image, uint64_t time_ns, const struct cofi_image *to);
/* Add a change. COFI_ERR_RANGE: wraps around; COFI_ERR_NOMEM. */
int cofi__image_add(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len,
                    struct cofi__source *source, uint64_t pgoff);

/* cofi_image_map_file, with the file that is read in place of path (null: path). */
int cofi__image_map_file_at(struct cofi_image *image, uint64_t time_ns, uint64_t addr, uint64_t len, const char *path,
                            const char *file, uint64_t pgoff, const uint8_t *build_id, size_t build_id_size);
/* All code of a kernel's boot image (vmlinuz), moved so that it begins at `text`. Errors: COFI_ERR_NO_CODE (it
 * cannot be read, or has another build id), COFI_ERR_BAD_FORMAT, COFI_ERR_NOMEM. Cost: unpacks the whole image. */
int cofi__image_map_vmlinuz(struct cofi_image *image, uint64_t time_ns, const char *path, const uint8_t *build_id,
                            size_t build_id_size, uint64_t text);
/* As cofi_image_map_bytes, of bytes that outlive the store. */
int cofi__image_borrow_bytes(struct cofi_image *image, uint64_t time_ns, uint64_t addr, const uint8_t *bytes,
                             size_t len, const char *label);

/* What a view shows. */
struct cofi__table {
    struct cofi__segments segments;
    const struct cofi_image *image;
    size_t next;   /* the change that is due next */
    size_t clears; /* of those that were told, see cofi_view_cleared */
};

/* Apply all changes up to time_ns. Returns how many ranges changed or COFI_ERR_NOMEM. */
int cofi__table_advance(struct cofi__table *table, uint64_t time_ns,
                        void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque);
/* Same without telling what changed, which saves the comparison. */
int cofi__table_forward(struct cofi__table *table, uint64_t time_ns);
/* Call changed for every range that shows different bytes in b than in a. Returns how many. */
int cofi__table_differences(const struct cofi__table *a, const struct cofi__table *b,
                            void (*changed)(void *opaque, uint64_t addr, uint64_t len), void *opaque);

/* cofi_image_fork from what a table of the parent shows now. */
int cofi__image_fork_table(struct cofi_image *image, const struct cofi__table *parent, uint64_t time_ns);

#endif
